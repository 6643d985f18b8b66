"""The bound of the inactivity of loops."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.codec import encode_journal, journal_name
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._engine.journal.adoption import created
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.activity import BOUND_S, PUBLICATION_S, TOKEN_S, Activity
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.kernel.process import START
from tests.lab.fleet.past import earlier_document
from tests.lab.fleet.scenario import PlannedEvent
from tests.support.fleet.scenarios import QUIET

JOB = "job-0"


@pytest.fixture
def environment():
    """A fleet in which one job waits for a trigger of the first triggerer, whose loop never reads."""
    environment: Any = Environment(QUIET)
    scheduler = environment.airflow.scheduler
    for job in list(environment.jobs)[:1]:
        scheduler.add(environment._task(environment.jobs[job]))
        environment.airflow.api.database.add_trigger(scheduler.instance(scheduler.tasks[job]), {})
    (trigger,) = environment.airflow.api.database.triggers.values()
    trigger.triggerer = environment.triggerers[0].process.name
    environment.triggerers[0]._tasks[trigger.trigger_id] = SimpleNamespace()
    return environment


def let_pass(environment, activity, seconds):
    """Check several times while time passes and nothing happens."""
    for _ in range(4):
        environment.kernel.now += seconds / 4
        activity.check()


def test_a_loop_that_does_not_read_for_longer_than_its_bound_is_found(environment):
    activity = Activity(environment)
    activity.check()
    let_pass(environment, activity, BOUND_S - 1)
    with pytest.raises(ViolationError, match=f"the loop of {JOB} has not read"):
        let_pass(environment, activity, 8)


@pytest.mark.parametrize("missing", [None, "token_rotates", "airflow_hangs", "master_is_slow"])
def test_a_loop_that_needs_a_new_token_from_airflow_for_slow_masters_has_more_time(environment, missing):
    kinds = {"token_rotates", "airflow_hangs", "master_is_slow"} - {missing}
    now = environment.kernel.now
    events = [PlannedEvent(at=now, kind=kind, duration=BOUND_S, target=0, size=0) for kind in sorted(kinds)]
    environment.scenario = replace(environment.scenario, events=events)
    activity = Activity(environment)
    activity.check()
    let_pass(environment, activity, BOUND_S - 1)
    if missing is None:
        let_pass(environment, activity, TOKEN_S)
    with pytest.raises(ViolationError):
        let_pass(environment, activity, 8)


def test_a_loop_whose_job_has_ended_has_time_to_publish_the_end(environment):
    spec = environment._spec(environment.jobs[JOB])
    ended = Finished(since=START, outcome=Outcome.FINISHED, cause=None, stop_deadline=START)
    document = replace(earlier_document(spec, replace(created(spec), current=ended)), number=1)
    path = f"{environment.directory(JOB)}/journal/{journal_name(1)}"
    environment.storage(JOB).files.write(path, encode_journal(document), 0.0)
    activity = Activity(environment)
    activity.check()
    let_pass(environment, activity, BOUND_S + PUBLICATION_S - 1)
    with pytest.raises(ViolationError):
        let_pass(environment, activity, 8)


def test_a_loop_that_reads_is_active(environment):
    activity = Activity(environment)
    for _ in range(5):
        let_pass(environment, activity, BOUND_S - 1)
        path = f"{environment.directory(JOB)}/status.json"
        environment.storage(JOB).read_at[path] = environment.kernel.now


def test_the_time_of_a_frozen_process_does_not_count(environment):
    activity = Activity(environment)
    activity.check()
    environment.triggerers[0].process.freeze()
    let_pass(environment, activity, 10 * BOUND_S)


def test_the_time_of_a_fault_of_the_storage_does_not_count(environment):
    activity = Activity(environment)
    activity.check()
    end = environment.storage(JOB).faults.hang(f"{environment.directory(JOB)}/*")
    let_pass(environment, activity, 10 * BOUND_S)
    end()
    let_pass(environment, activity, BOUND_S - 1)


def test_a_fault_of_the_directory_of_another_job_is_no_excuse(environment):
    activity = Activity(environment)
    activity.check()
    environment.storage(JOB).faults.hang(f"{environment.directory('job-1')}/*")
    with pytest.raises(ViolationError):
        let_pass(environment, activity, 2 * BOUND_S)


def test_a_fault_of_airflow_is_no_excuse_for_a_loop_that_has_read(environment):
    activity = Activity(environment)
    activity.check()
    environment.airflow.api.faults.hang()
    with pytest.raises(ViolationError):
        let_pass(environment, activity, 2 * BOUND_S)


def test_a_fault_of_airflow_is_an_excuse_for_a_trigger_that_another_triggerer_has_started(environment):
    activity = Activity(environment)
    activity.check()
    let_pass(environment, activity, BOUND_S - 1)
    end = environment.airflow.api.faults.hang()
    (trigger,) = environment.airflow.api.database.triggers.values()
    other = environment.start_triggerer()
    trigger.triggerer, other._tasks[trigger.trigger_id] = other.process.name, SimpleNamespace()
    let_pass(environment, activity, 10 * BOUND_S)
    end()
    with pytest.raises(ViolationError):
        let_pass(environment, activity, 2 * BOUND_S)


def test_a_trigger_that_has_fired_has_no_loop(environment):
    activity = Activity(environment)
    activity.check()
    environment.triggerers[0]._tasks.clear()
    let_pass(environment, activity, 10 * BOUND_S)
