"""Simulated fleets do their work, and the same seed has the same history."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.lab.fleet.faults import Faults
from tests.lab.fleet.scenario import PlannedEvent
from tests.lab.fleet.simulation import simulate
from tests.support.fleet.scenarios import QUIET
from tests.support.repository import ROOT


def history(seed: int, hash_seed: int) -> str:
    command = [
        sys.executable,
        "-m",
        "tests.lab.fleet",
        str(seed),
        "--jobs",
        "3",
        "--history",
        "--no-shrink",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=ROOT).stdout


def test_a_fleet_without_faults_does_its_work():
    simulated = simulate(QUIET)
    assert simulated.outcome.summary.startswith("seed 1: 2 jobs, 90 s")
    assert any("job-0: batch 3 committed" in line for line in simulated.history)
    assert any("job-1: task success" in line for line in simulated.history)


@pytest.mark.long
def test_the_history_does_not_depend_on_the_interpreter_or_on_hashes():
    first, second = history(1, hash_seed=1), history(1, hash_seed=2)
    assert len(first.splitlines()) > 100
    assert first == second


def test_a_job_that_the_cluster_has_no_slots_for_waits_without_a_violation():
    crowded = replace(QUIET, jobs=(replace(QUIET.jobs[0], bounds=(20, 20)),))
    assert simulate(crowded).outcome.invariant == ""


def event(kind: str, *, at: float, duration: float = 0.0) -> PlannedEvent:
    """An event for the first job."""
    return PlannedEvent(at=at, kind=kind, duration=duration, target=0, size=0.5)


def test_an_exception_is_a_violation_of_its_seed(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise LookupError("no such job")

    monkeypatch.setattr(Faults, "user_cancels", fail)
    outcome = simulate(replace(QUIET, events=(event("user_cancels", at=2.0),))).outcome
    assert (outcome.invariant, outcome.violation) == ("exceptions", "LookupError: no such job")
