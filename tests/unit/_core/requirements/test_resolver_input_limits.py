"""The requirements of a job whose driver reports how many tasks its sources can feed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.requirements.resolution import Resolution
from airflow_adaptive._core.requirements.resolver import ResolverInput
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Canceling, SchedulerState
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario
from tests.unit._core.requirements.test_advice_tracker import FixedAdvisor, RunningResolver


def status(limit: int) -> DriverStatus:
    source = SourceReport(kind="KafkaV2", input_limit=limit)
    query = QueryReport(name="job", active=True, sources=(source,), shuffle=Shuffle.NONE)
    return DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, queries=(query,))


def executing() -> SchedulerState:
    job = Scenario()
    job.given_executing(2)
    return job.state


def resolve(
    resolver: RunningResolver, state: SchedulerState, limit: int | None, upper: int | None = None
) -> Resolution:
    override = {} if upper is None else dict.fromkeys(state.requirements, ParallelismRange(1, upper))
    return resolver.run(
        ResolverInput(
            state=state,
            control_requests=ControlRequests(requirements=override, is_read=True),
            status=None if limit is None else status(limit),
            costs={},
            at=START,
        )
    )


def bounded(state: SchedulerState, resolved: Resolution) -> SchedulerState:
    return replace(state, requirements=resolved.requirements)


def uppers(state: SchedulerState) -> set[int]:
    return {bounds.upper for bounds in state.requirements.values()}


def test_declared_bounds_come_down_to_the_limit_and_rise_with_new_partitions():
    resolver, state = RunningResolver(), executing()
    declared = uppers(state)
    assert resolve(resolver, state, None).event(state, START) is None
    limited = bounded(state, resolve(resolver, state, 2))
    assert uppers(limited) == {2}
    assert resolve(resolver, limited, 2).event(limited, START) is None
    assert resolve(resolver, limited, None).event(limited, START) is None
    grown = bounded(limited, resolve(resolver, limited, 3))
    assert uppers(grown) == {3}
    assert uppers(bounded(grown, resolve(resolver, grown, 100))) == declared


def test_reason_of_the_change_names_the_limit():
    state = executing()
    resolved = resolve(RunningResolver(), state, 1)
    event = resolved.event(state, START)
    assert event is not None
    assert event.by == "the DAG; the sources of vertex job feed 1 task: more than 1 slot would idle"


def test_override_of_a_user_comes_down_to_the_limit():
    state = executing()
    assert uppers(bounded(state, resolve(RunningResolver(), state, 2, upper=4))) == {2}


def test_bounds_of_a_job_that_is_being_canceled_do_not_come_down_to_the_limit():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert resolve(RunningResolver(), state, 2).event(state, START) is None


def test_bounds_that_a_user_sets_for_a_job_that_is_being_canceled_are_active_within_the_limit():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert uppers(bounded(state, resolve(RunningResolver(), state, 2, upper=3))) == {2}


def test_next_loop_keeps_the_limit_before_it_reads_a_status():
    resolver, state = RunningResolver(), executing()
    limited = bounded(state, resolve(resolver, state, 2))
    following = RunningResolver(memory=resolver.memory)
    assert resolve(following, limited, None).event(limited, START) is None
    forgetful = RunningResolver()
    assert uppers(bounded(limited, resolve(forgetful, limited, None))) == uppers(state)


def test_advice_is_aligned_with_the_sources_within_the_declared_bounds():
    """Each of four partitions has a task of its own in four slots, and two tasks wait in three slots."""
    state = executing()
    assert uppers(state) == {4}
    resolver = RunningResolver(FixedAdvisor(**dict.fromkeys(state.requirements, (1, 3))))
    assert uppers(bounded(state, resolve(resolver, state, 4))) == {4}
