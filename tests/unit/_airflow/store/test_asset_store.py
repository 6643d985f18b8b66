"""Airflow's stores as the control requests and the published state of a job."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import Variable

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.control_requests import (
    READS_BETWEEN,
    store_request,
)
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._airflow.store.task_xcoms import xcoms
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.requirements.control_requests import (
    DESIRED_STATE,
    ControlRequest,
    ControlRequests,
    DesiredState,
)
from airflow_adaptive._core.scheduler.history.rescales import summarize
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.scheduler.timeline import Decision, ReasonCode, Transition
from airflow_adaptive._core.view import JobHistory, JobView, SchedulerStateName, TaskKey, Urls, failure_record
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.scenario import START, Scenario
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.airflow.published_documents import history
from tests.support.waiting import wait_until_async

BODY = {"job": {"parallelism": {"lowerBound": 1, "upperBound": -1}}}
EXECUTING = Scenario().given_executing(2)
FAILURE = FailureRecord(
    at=START,
    state="Executing",
    failure=Failure(error_class="TASK_FAILED", message="an executor was lost"),
    decision="restarting in 1 s",
)
HISTORY = JobHistory(
    transitions=[
        Transition(
            at=START,
            source="Created",
            target=str(number),
            version=number,
            before=None,
            after=None,
            reason_code=ReasonCode.PLAN_ACTIVATED,
            reason="a reason",
        )
        for number in range(60)
    ],
    decisions=[Decision(at=START, state="Executing", reason_code=ReasonCode.SLOTS_PENDING, reason="1 slot is there")],
    rescales=[rescale for step in EXECUTING.steps if (rescale := step.rescale) is not None],
)
VIEW = replace(
    job_view(
        EXECUTING.state,
        History(FakeJobDirectory(), "departures", 10),
        Urls(master="http://master:8080"),
        "r/1",
    ),
    recent_failures=(FAILURE,),
    history=HISTORY,
)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def access(clock: ManualClock) -> StoreAccess:
    return StoreAccess(clock)


@pytest.fixture
def store(clock: ManualClock, access: StoreAccess) -> AirflowJobStore:
    return AirflowJobStore("departures", TaskKey(dag_id="d", task_id="t", run_id="r"), clock, access)


async def after_reads(store: AirflowJobStore) -> ControlRequests:
    """The control requests after all reads that are due."""
    for _ in range(3):
        await store.control_requests()
        tasks = (store._reading, store._access.change_markers._refreshing)
        running = {task for task in tasks if task is not None and not task.done()}
        if running:
            await asyncio.wait(running)
    return await store.control_requests()


def read(store: AirflowJobStore) -> ControlRequests:
    return asyncio.run(after_reads(store))


def read_later(store: AirflowJobStore, clock: ManualClock) -> ControlRequests:
    asyncio.run(clock.sleep(2))
    return read(store)


def show(store: AirflowJobStore, view: JobView) -> None:
    async def publish() -> None:
        await store.publish(view)
        await store.finish()

    asyncio.run(publish())


def test_job_without_a_request_is_to_run(airflow: FakeComms, store: AirflowJobStore) -> None:
    assert read(store) == ControlRequests()


def test_desired_state_and_overrides_are_read(airflow: FakeComms, store: AirflowJobStore) -> None:
    airflow.asset_states = {"desired_state": {"value": "suspended"}, "requirements": {"value": BODY}}
    assert read(store) == ControlRequests(
        desired_state=DesiredState.SUSPENDED, requirements={"job": ParallelismRange(1, -1)}
    )


@pytest.mark.parametrize(("jobs", "hints"), [(1, ["hint"]), (10, [])], ids=["few jobs", "many jobs"])
def test_request_between_two_cycles_is_a_hint_while_few_jobs_run(
    airflow: FakeComms, clock: ManualClock, access: StoreAccess, jobs: int, hints: list[str]
) -> None:
    given: list[str] = []

    async def is_over() -> bool:
        await clock.sleep(1)
        return bool(given) if hints else clock.elapsed > 500

    async def story() -> None:
        task = TaskKey(dag_id="d", task_id="t", run_id="r")
        for _ in range(jobs - 1):
            access.request_reads.join()
        store = AirflowJobStore("departures", task, clock, access)
        store.hint = lambda: given.append("hint")
        await store.control_requests()
        assert not given
        store_request("departures", ControlRequest(key=DESIRED_STATE, value="canceled"))
        await wait_until_async(is_over, 60, "a hint, or its absence", 0.001)
        store.close()

    asyncio.run(story())
    assert given == hints


@pytest.mark.parametrize("error", [api_server_error(), OSError("a backend's own")])
def test_unreadable_control_requests_stay_as_they_were(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock, error: Exception
) -> None:
    airflow.asset_states = {"desired_state": {"value": "suspended"}, "requirements": {"value": BODY}}
    before = read(store)
    airflow.error = error
    assert read_later(store, clock) == before


def test_invalid_overrides_do_not_hide_the_desired_state(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.asset_states = {"desired_state": {"value": "canceled"}, "requirements": {"value": {"job": 3}}}
    with caplog.at_level(logging.WARNING):
        assert read(store) == ControlRequests(desired_state=DesiredState.CANCELED)
        read_later(store, clock)
    assert len(caplog.messages) == 1
    assert "'requirements'" in caplog.messages[0]
    assert "departures" in caplog.messages[0]


def test_unknown_desired_state_does_not_hide_the_overrides(airflow: FakeComms, store: AirflowJobStore) -> None:
    airflow.asset_states = {"desired_state": {"value": "explode"}, "requirements": {"value": BODY}}
    assert read(store) == ControlRequests(requirements={"job": ParallelismRange(1, -1)})


def test_view_is_displayed_as_xcoms_of_the_task(airflow: FakeComms, store: AirflowJobStore) -> None:
    show(store, VIEW)
    assert (airflow.xcoms["state"], airflow.xcoms["parallelism"]) == ("Executing", {"job": 2})
    assert [it["target"] for it in airflow.xcoms["transitions"]] == [str(number) for number in range(10, 60)]
    assert airflow.xcoms["failures"] == [failure_record(FAILURE)]
    assert airflow.xcoms["decisions"] == encode(tuple(HISTORY.decisions))
    assert airflow.xcoms["rescales"] == {
        "history": encode(tuple(HISTORY.rescales)),
        "summary": encode(summarize(HISTORY.rescales)),
    }
    assert (airflow.xcoms["spark_master_url"], airflow.xcoms["spark_driver_url"]) == ("http://master:8080", "")
    assert airflow.map_indexes == {-1}


def test_outcome_of_an_ended_job_is_displayed_as_its_state(airflow: FakeComms, store: AirflowJobStore) -> None:
    show(store, replace(VIEW, state=SchedulerStateName("Finished"), outcome=Outcome.SUSPENDED))
    assert airflow.xcoms["state"] == "SUSPENDED"


def test_only_what_has_changed_is_pushed(airflow: FakeComms, store: AirflowJobStore) -> None:
    show(store, VIEW)
    airflow.pushes.clear()
    show(store, replace(VIEW, parallelism={"job": 3}))
    assert airflow.pushes == ["parallelism"]


@pytest.mark.parametrize("error", [api_server_error(), OSError("a backend's own")])
def test_view_that_could_not_be_pushed_is_pushed_when_airflow_is_back(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    airflow.error = error
    clock.at(60, lambda: setattr(airflow, "error", None))
    with caplog.at_level(logging.WARNING):
        show(store, VIEW)
    assert airflow.xcoms["state"] == "Executing"
    assert len(caplog.messages) == 1


def test_end_of_a_job_whose_run_was_deleted_is_published_once_and_without_xcoms(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.is_run_deleted = True
    show(store, VIEW)
    assert (airflow.xcoms, clock.elapsed, caplog.messages) == ({}, 0, [])
    assert ("summary" in airflow.asset_states) is has("AssetStateStoreAccessor")


def test_published_metrics_are_read_when_airflow_is_back(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock
) -> None:
    """A loop that starts during an outage asks every two seconds, not without a pause."""
    airflow.asset_states = {"metrics/10": {"step": 10}}
    airflow.error = api_server_error()
    clock.at(60, lambda: setattr(airflow, "error", None))
    assert asyncio.run(store.published_metrics())["metrics/10"] == {"step": 10}
    assert clock.elapsed == 60


def test_view_that_is_outdated_before_it_was_pushed_is_skipped(airflow: FakeComms, store: AirflowJobStore) -> None:
    async def publish() -> None:
        for number in range(5):
            await store.publish(replace(VIEW, parallelism={"job": number}))
        await store.finish()

    asyncio.run(publish())
    assert airflow.xcoms["parallelism"] == {"job": 4}
    assert airflow.pushes.count("parallelism") == 1


def test_nothing_is_pushed_for_a_loop_that_was_ended_from_outside(airflow: FakeComms, store: AirflowJobStore) -> None:
    async def publish() -> None:
        await store.publish(VIEW)
        store.close()
        await store.finish()

    asyncio.run(publish())
    assert airflow.xcoms == {}


# ---- many jobs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def crowd(clock: ManualClock, access: StoreAccess) -> list[AirflowJobStore]:
    """Stores of a hundred jobs, whose control requests were read once."""
    task = TaskKey(dag_id="d", task_id="t", run_id="r")
    stores = [AirflowJobStore(f"job-{number}", task, clock, access) for number in range(100)]
    read_all(stores)
    return stores


def read_all(stores: list[AirflowJobStore]) -> list[DesiredState]:
    async def read() -> list[DesiredState]:
        return [(await after_reads(store)).desired_state for store in stores]

    return asyncio.run(read())


def test_control_requests_of_many_jobs_are_read_in_turn(
    airflow: FakeComms, clock: ManualClock, crowd: list[AirflowJobStore]
) -> None:
    airflow.asset_states = {"desired_state": {"value": "suspended"}}
    airflow.reads, first = 0, read_all(crowd)
    assert set(first) == {DesiredState.RUNNING}
    for _ in range(13):
        asyncio.run(clock.sleep(1))
        read_all(crowd)
    assert set(read_all(crowd)) == {DesiredState.SUSPENDED}
    assert airflow.reads <= 3 * 130 + 14, (
        "two or three operations for the requests of a job, ten jobs a second, the change markers every second"
    )


def test_job_with_a_request_is_read_at_once_however_many_jobs_there_are(
    airflow: FakeComms, clock: ManualClock, crowd: list[AirflowJobStore]
) -> None:
    airflow.reads = 0
    store_request("job-42", ControlRequest(key=DESIRED_STATE, value="canceled"))
    asyncio.run(clock.sleep(2))
    before = airflow.reads
    assert read(crowd[42]).desired_state is DesiredState.CANCELED
    assert airflow.reads == before + 8, "the change markers, and all documents of the job"


def test_signal_that_can_not_be_written_or_read_costs_nothing_but_time(
    airflow: FakeComms, clock: ManualClock, crowd: list[AirflowJobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("a backend's own")

    monkeypatch.setattr(Variable, "get", broken)
    store_request("job-42", ControlRequest(key=DESIRED_STATE, value="canceled"))
    for _ in range(13):
        asyncio.run(clock.sleep(1))
        read_all(crowd)
    assert read_all(crowd)[42] is DesiredState.CANCELED


# ---- overrides ------------------------------------------------------------------------------------------------------


def test_what_airflow_deleted_with_the_asset_is_brought_back(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock
) -> None:
    async def live() -> ControlRequests:
        await store.publish(VIEW)
        await store.finish()
        await store.control_requests()
        airflow.asset_states.clear()
        await clock.sleep(2)
        control_requests = await after_reads(store)
        await store.finish()
        return control_requests

    airflow.asset_states = {"desired_state": {"value": "suspended"}, "requirements": {"value": BODY}}
    assert asyncio.run(live()) == ControlRequests(
        desired_state=DesiredState.SUSPENDED, requirements={"job": ParallelismRange(1, -1)}
    )
    assert read_later(store, clock).requirements == {"job": ParallelismRange(1, -1)}
    assert airflow.asset_states["summary"]["state"] == "Executing"


# ---- who has set them, and until when -------------------------------------------------------------------------------


@pytest.mark.parametrize("requester", [{"by": None}, {"by": "", "until": 7}, {"until": "soon"}, {}])
def test_requester_in_an_unknown_form_is_not_known(airflow: FakeComms, store: AirflowJobStore, requester: Any) -> None:
    airflow.asset_states = {"requirements": {"value": BODY, **requester}}
    assert read(store) == ControlRequests(requirements={"job": ParallelismRange(1, -1)})


def test_longer_hold_of_the_same_bounds_is_seen_within_a_few_reads(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock
) -> None:
    airflow.asset_states = {"requirements": {"value": BODY, "until": "2013-01-01T02:00:00+00:00"}}
    read(store)
    airflow.asset_states["requirements"] = {"value": BODY, "until": "2013-01-01T03:00:00+00:00"}
    reads = [read_later(store, clock) for _ in range(READS_BETWEEN + 1)]
    assert reads[-1].requester.expires_at == datetime(2013, 1, 1, 3, tzinfo=UTC)


def test_control_requests_that_could_not_be_read_yet_are_marked_as_unread(
    airflow: FakeComms, store: AirflowJobStore, clock: ManualClock
) -> None:
    airflow.error = OSError("a backend's own")
    assert not read(store).is_read
    airflow.error = None
    assert read_later(store, clock).is_read


TASK = TaskKey(dag_id="flights", task_id="stream", run_id="r")
TIMEOUT_S = 60.0


def members(access: StoreAccess) -> tuple[int, int]:
    return access.request_reads.members, access.metrics_writes.members


async def closed_while_airflow_is_out_of_reach(airflow: FakeComms) -> None:
    clock = ManualClock()
    access = StoreAccess(clock)
    store = AirflowJobStore("departures", TASK, clock, access)
    assert members(access) == (1, 1)
    airflow.error = OSError("out of reach")
    await store.control_requests()
    await store.publish(VIEW)
    await store.publish_metrics({"metrics/10": {"step": 10, "columns": [], "points": []}})
    running = asyncio.all_tasks() - {asyncio.current_task()}
    assert len(running) == 2
    store.close()
    await asyncio.wait(running, timeout=TIMEOUT_S)
    assert [task.cancelled() for task in running] == [True, True]
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert members(access) == (0, 0)


def test_closed_store_leaves_no_task_and_no_member_of_a_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(closed_while_airflow_is_out_of_reach(FakeComms.install(monkeypatch)))


MOST_BYTES = 64 << 10
"""What Airflow 3.3 lets an asset's state have, and MySQL a TEXT."""

LONG_URL = "http://worker.example.org/" + "u" * 200


def failure(number: int) -> Failure:
    return Failure(error_class=f"Error{number}", message="m" * 9000, causes=("c" * 200,) * 20)


def unlucky(vertices: int) -> Scenario:
    """A job of many vertices with long names: required of this and that, failing and failing again."""
    bounds = ParallelismRange(1, 1000)
    names = [f"{number:03}-{'ü' * 10}{'v' * 46}" for number in range(vertices)]
    graph = JobGraph(
        job="job",
        vertices=tuple(JobVertex(name=name, parallelism=bounds, slot_sharing_group=f"of {name}") for name in names),
    )
    job = Scenario(graph=graph, failure_history_size=16, resource_stabilization_timeout=0)
    job.given_executing(2 * vertices)
    for upper in range(2, 26):
        job.when_requirements(1, upper)
    for number in range(20):
        job.when_query_failed(failure(number))
        for other in range(20):
            job.when_query_failed(failure(100 + other))
        job.after(100).when_plan_activated()
    return job


@pytest.mark.parametrize("vertices", [1, 10, 50, 100])
def test_all_that_a_job_shows_is_small(vertices: int) -> None:
    job = unlucky(vertices)
    urls = Urls(**dict.fromkeys(Urls.__dataclass_fields__, LONG_URL))
    published = xcoms(job_view(job.state, history(job), urls, "attempt"))
    assert all(published[key] for key in ("parallelism", "transitions", "failures", "decisions"))
    assert len(published["rescales"]["history"]) >= 3
    assert sum(len(json.dumps(value)) for value in published.values()) < MOST_BYTES
