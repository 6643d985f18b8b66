"""Faults of the masters and of the network before them, with the real client and the real loop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.lab.fleet.cluster.masters import MasterFault
from tests.support.fleet.one_job import OneJobFleet
from tests.support.repository import ROOT


@pytest.fixture
def fleet():
    found = OneJobFleet()
    found.add_workers(3)
    return found


def test_a_submission_whose_response_is_lost_leads_to_one_driver_with_queries(fleet):
    end = fleet.masters.begin(MasterFault("lose", kinds="create"))
    fleet.run_until(lambda: fleet.has("create of triggerer-1 executed"))
    end()
    fleet.run_until(fleet.runs_with(2))
    assert fleet.overlaps == []


@pytest.mark.parametrize("effect", ["hang", "disconnect", "refuse", "fail", "garbage"])
def test_a_driver_continues_while_no_master_answers(fleet, effect):
    fleet.run_until(fleet.runs_with(2))
    end = fleet.masters.begin(MasterFault(effect))
    fleet.run_until(lambda: fleet.loop.last_error is not None)
    fleet.run(60)
    end()
    fleet.add_workers(2)
    fleet.run_until(fleet.runs_with(4))
    assert len(fleet.drivers.started) == 1


def test_drivers_that_reach_no_master_get_no_executors(fleet):
    fleet.run_until(fleet.runs_with(2))
    end = fleet.cluster.disconnect_drivers()
    fleet.add_workers(2)
    fleet.run(30)
    assert len(fleet.cluster.executors(fleet.driver.submission_id)) == 2
    end()
    fleet.run_until(fleet.runs_with(4))


def test_masters_can_hang_for_loops_and_drivers(fleet):
    end = fleet.masters.hang(with_drivers=True)
    fleet.run(30)
    assert fleet.cluster.submissions == {}
    end()
    fleet.run_until(fleet.runs_with(2))


def test_slow_masters_answer_late(fleet):
    fleet.masters.begin(MasterFault("slow", delay_s=3.0))
    fleet.run_until(fleet.runs_with(2))
    assert len(fleet.drivers.started) == 1


def test_an_old_state_of_the_cluster_hides_new_workers(fleet):
    fleet.run_until(fleet.runs_with(2))
    end = fleet.masters.begin(MasterFault("stale"))
    fleet.add_workers(2)
    fleet.run(30)
    assert not fleet.runs_with(4)()
    end()
    fleet.run_until(fleet.runs_with(4))


def test_another_master_takes_over(fleet):
    fleet.run_until(fleet.runs_with(2))
    fleet.masters.take_over(10.0)
    fleet.run_until(lambda: fleet.has("master-2 leads"))
    fleet.driver.processes.kill()
    fleet.run_until(lambda: fleet.has("master-2: create of triggerer-1 executed"))
    fleet.run_until(fleet.runs_with(2))


def test_the_client_reads_a_rotated_token(fleet):
    fleet.run_until(fleet.runs_with(2))
    fleet.masters.token = "second"
    fleet.run(5)
    fleet.add_workers(2)
    fleet.run_until(fleet.runs_with(4))
    assert fleet.loop.last_error is None


def test_a_fault_can_affect_one_client_only(fleet):
    fleet.masters.begin(MasterFault("refuse", clients="triggerer-2"))
    fleet.run_until(fleet.runs_with(2))


PROGRAM = """
from tests.support.fleet.one_job import OneJobFleet
from tests.lab.fleet.cluster.masters import MasterFault
fleet = OneJobFleet(seed=7)
fleet.add_workers(2, 3)
fleet.run(40)
fleet.driver.processes.freeze()
fleet.masters.begin(MasterFault("lose", kinds="create"))
fleet.run(60)
print("\\n".join(fleet.history))
"""


def test_the_history_depends_only_on_the_seed():
    histories = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(histories[0].splitlines()) > 100
    assert histories[0] == histories[1]
