"""The invariants of a fleet find two drivers, and lost or duplicated records, and nothing else."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.lab.fleet.cluster.job_model import RESUME_S
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.safety import Safety
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.seeds import scenario_of


@pytest.fixture
def environment():
    return Environment(scenario_of(1))


def violated(environment):
    with pytest.raises(ViolationError) as caught:
        Safety(environment).check()
    return caught.value.invariant


def driver(job, name):
    return SimpleNamespace(
        settings=SimpleNamespace(job=job), name=name, runs_query=True, processes=SimpleNamespace(is_alive=True)
    )


def test_a_new_environment_fulfills_them(environment):
    Safety(environment).check()


def test_two_drivers_of_a_job_with_queries_are_found(environment):
    environment.drivers.started += [driver("job-0", "driver-1"), driver("job-0", "driver-2")]
    assert violated(environment) == "one-driver"


def test_a_driver_whose_host_was_just_resumed_may_not_have_stopped_yet(environment):
    environment.drivers.started += [driver("job-0", "driver-1"), driver("job-0", "driver-2")]
    environment.drivers.models["job-0"].resumed_at = 0.0
    Safety(environment).check()
    environment.kernel.now = RESUME_S + 0.1
    assert violated(environment) == "one-driver"


def test_two_drivers_of_two_jobs_are_no_violation(environment):
    environment.drivers.started += [driver("job-0", "driver-1"), driver("job-1", "driver-2")]
    Safety(environment).check()


def test_a_lost_or_duplicated_record_is_found(environment):
    environment.drivers.models["job-0"].violations.append("batch 3 begins at record 10, not 20")
    assert violated(environment) == "exactly-once"


def test_a_driver_of_a_job_that_has_finished_is_found(environment):
    path = f"{environment.directory('job-0')}/status.json"
    environment.storage("job-0").files.write(path, json.dumps({"state": "FINISHED"}).encode(), 0.0)
    environment.drivers.started.append(driver("job-0", "driver-2"))
    assert violated(environment) == "finished-once"


def test_a_cleared_task_may_run_its_job_again(environment):
    path = f"{environment.directory('job-0')}/status.json"
    environment.storage("job-0").files.write(path, json.dumps({"state": "FINISHED"}).encode(), 0.0)
    environment.drivers.started.append(driver("job-0", "driver-2"))
    environment.cleared["job-0"] = 1.0
    Safety(environment).check()
