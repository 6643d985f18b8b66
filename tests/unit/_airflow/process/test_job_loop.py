"""The loop of a job is restarted after each failure, because its driver must not run without a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._airflow.process import job_loop
from airflow_adaptive._airflow.process.job_loop import (
    NotCanceledError,
    cancel_job,
    cancel_until_ended,
    kill_driver,
    run_job_loop,
)
from airflow_adaptive._airflow.process.loop_events import deployed_spec
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob, ProcessResources
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._core.ports import ClusterUnreachableError, ForeignDirectoryError, JobDirectoryError, Request
from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document, encode_document
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.journal.journal import MayTakeOver, SupersededError, attempt_of
from airflow_adaptive._engine.loop import Loop, Ports, RunLimits
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.examples import long_except
from tests.support.servers.fake_master import HOST, FakeMaster

TASK = TaskKey(dag_id="d", task_id="t", run_id="r")
BASE = "file:///nowhere"


class Opening:
    """`job_ports` of a simulation; `errors` are raised one after the other, before the ports open."""

    def __init__(self, job: Simulation) -> None:
        self.job = job
        self.errors: list[Exception] = []
        self.opened = 0

    @asynccontextmanager
    async def __call__(self, _: DeployedJob, may_take_over: MayTakeOver, *__: Any) -> AsyncIterator[Ports]:
        if self.errors:
            raise self.errors.pop(0)
        self.opened += 1
        yield replace(self.job.ports, may_take_over=may_take_over)


class Kills:
    """`kill_driver` of a simulation; `errors` are raised one after the other."""

    def __init__(self, job: Simulation) -> None:
        self.job = job
        self.errors: list[Exception] = []
        self.killed: list[str] = []

    async def __call__(self, _: str, driver: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.job.cluster.kill_driver(driver)
        self.killed.append(driver)


@pytest.fixture
def job() -> Simulation:
    """A job that executes from the first seconds on, and ends after two minutes."""
    job = Simulation(resource_stabilization_timeout="2 s")
    job.cluster.add_worker(cores=2, memory_mb=1024)
    job.clock.at(120, job.drivers.finish)
    return job


@pytest.fixture
def opening(job: Simulation, monkeypatch: pytest.MonkeyPatch) -> Opening:
    opening = Opening(job)
    monkeypatch.setattr(job_loop, "job_ports", opening)
    monkeypatch.setattr(job_loop, "FIRST_RESTART_DELAY", timedelta(0))
    return opening


def directory_of(job: Simulation) -> Callable[[str, str], Any]:
    """`job_directory` of a simulation."""
    directories = {(BASE, job.spec.graph.job): job.directory}
    return lambda base, name: directories[base, name]


def deployed(job: Simulation) -> DeployedJob:
    return DeployedJob(job.spec, ConnectionIds("spark_test"), BASE, TASK)


def run(job: Simulation, limits: RunLimits | None = None) -> dict[str, Any]:
    return asyncio.run(run_job_loop(deployed(job), limits))


def fail_at(job: Simulation, seconds: float, error: Exception) -> None:
    """Let one call of the store fail, as a defect of any part of the loop would."""
    publish_metrics = job.store.publish_metrics

    async def fail(*_: Any) -> None:
        job.store.publish_metrics = publish_metrics  # type: ignore[method-assign]
        raise error

    job.clock.at(seconds, lambda: setattr(job.store, "publish_metrics", fail))


def test_loop_that_is_recycled_hands_the_job_and_its_deadline_over(job: Simulation, opening: Opening) -> None:
    cancel_at = START + timedelta(hours=1)
    event = run(job, RunLimits(recycle_at=START + timedelta(seconds=30), cancel_at=cancel_at))
    assert deployed_spec(event.pop("spec")) == job.spec
    assert event == {
        "status": "recycle",
        "attempt": job.spec.attempt,
        "cancel_at": cancel_at.isoformat(),
        "connections": {"spark": "spark_test", "kubernetes": "kubernetes_default", "namespace": "", "kafka": ""},
        "base": BASE,
    }


@pytest.mark.parametrize("error", [KeyError("hush"), ValueError("hush"), RuntimeError("hush")], ids=repr)
def test_loop_that_fails_is_restarted_and_adopts_its_driver(
    job: Simulation, opening: Opening, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The job runs, its loop raises an unexpected exception, and the queries end later."""
    fail_at(job, 30, error)
    event = run(job)
    assert (event["status"], event["outcome"]) == ("finished", "FINISHED")
    assert opening.opened == 2
    assert [epoch for epoch, _, _ in job.drivers.started] == [1]
    (restart,) = [it for it in job.store.views[-1].history.decisions if it.reason_code is ReasonCode.LOOP_RESTARTED]
    assert restart.reason.startswith(
        f"the control loop failed and was restarted: {type(error).__name__} at test_job_loop.py, line "
    )
    assert "hush" not in restart.reason, "the message of an exception may contain a secret"
    assert "Traceback" in caplog.text


def test_cluster_that_accepts_no_driver_fails_the_task_at_once(job: Simulation, opening: Opening) -> None:
    job.cluster.refusal = "the account may not create pods: bind the Role"
    message = f"{job.cluster.refusal} [cluster-refused]"
    assert run(job) == {"status": "error", "message": message, "driver": None, "is_driver_known": True}
    assert job.cluster.submissions == {}


def test_driver_that_runs_keeps_its_loop_on_a_cluster_that_accepts_no_other_driver(
    job: Simulation, opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    """An administrator removes a permission while the job runs, and the loop of the job moves to another triggerer."""
    event = run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert (event["status"], event["base"]) == ("recycle", BASE)
    job.cluster.refusal = "the account may not create pods"
    assert run(job)["outcome"] == "FINISHED"
    assert "The cluster accepts no other driver: the account may not create pods" in caplog.messages


def test_sizes_are_checked_before_a_job_begins_and_not_again(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest node is lost while the job waits, and the loop of the job moves to another triggerer."""
    checked: list[tuple[Request | None, Request | None]] = []

    async def check(driver: Request | None = None, executor: Request | None = None) -> None:
        checked.append((driver, executor))

    monkeypatch.setattr(job.cluster, "check", check)
    run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))
    run(job)
    assert checked == [(job.spec.driver.request, job.spec.executor.request), (None, None)]


def test_cluster_that_does_not_answer_is_no_reason_to_fail(job: Simulation, opening: Opening) -> None:
    job.cluster.reachable = False
    job.clock.at(20, lambda: setattr(job.cluster, "reachable", True))
    assert run(job)["outcome"] == "FINISHED"


def test_journal_that_cannot_be_read_may_name_a_driver(
    job: Simulation, opening: Opening, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.cluster.refusal = "the account may not create pods"

    async def fail_once() -> None:
        monkeypatch.undo()
        monkeypatch.setattr(job_loop, "job_ports", opening)
        raise JobDirectoryError("the disk is full")

    monkeypatch.setattr(job.directory, "newest", fail_once)
    assert run(job)["outcome"] == "FINISHED"
    assert "The cluster accepts no other driver: the account may not create pods" in caplog.messages


def test_failure_that_repeats_at_once_is_reported_once(job: Simulation, opening: Opening) -> None:
    """A defect makes each cycle fail for a while. The timeline keeps its other entries."""
    publish_metrics, failures = job.store.publish_metrics, [KeyError("hush")] * 3

    async def fail(metrics: Mapping[str, Any]) -> None:
        if failures:
            raise failures.pop()
        await publish_metrics(metrics)

    job.clock.at(30, lambda: setattr(job.store, "publish_metrics", fail))
    assert run(job)["outcome"] == "FINISHED"
    assert opening.opened == 4
    codes = [it.reason_code for it in job.store.views[-1].history.decisions]
    assert codes.count(ReasonCode.LOOP_RESTARTED) == 1


def test_connection_that_is_gone_does_not_end_the_loop_of_a_deployed_job(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs, its trigger moves to another triggerer, and the connection cannot be read there for a while."""
    assert run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))["status"] == "recycle"
    monkeypatch.setattr(job_loop, "job_directory", directory_of(job))
    opening.errors = [AddressError("connection 'spark_test' is not defined: add it")] * 3
    assert run(job)["outcome"] == "FINISHED"
    assert [epoch for epoch, _, _ in job.drivers.started] == [1]


def test_connection_that_does_not_exist_fails_a_job_that_was_never_deployed(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_loop, "job_directory", directory_of(job))
    opening.errors = [AddressError("connection 'spark_test' is not defined: add it")]
    message = "connection 'spark_test' is not defined: add it [address]"
    assert run(job) == {"status": "error", "message": message, "driver": None, "is_driver_known": True}


@pytest.fixture
def overdue(job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kills]:
    """From the 30th second on, each cycle of a loop fails before it can cancel the job."""
    job.spec = replace(job.spec, options=replace(job.spec.options, stop_timeout=timedelta(seconds=10)))
    kills = Kills(job)
    monkeypatch.setattr(job_loop, "FIRST_RESTART_DELAY", timedelta(seconds=1))
    monkeypatch.setattr(job_loop, "MAX_RESTART_DELAY", timedelta(seconds=5))
    monkeypatch.setattr(job_loop, "kill_driver", kills)
    monkeypatch.setattr(job_loop, "job_directory", directory_of(job))
    resources = SimpleNamespace(clock=job.clock, store_access=Reads())
    monkeypatch.setattr(ProcessResources, "current", lambda: resources)

    async def fail(*_: Any) -> ControlRequests:
        raise KeyError("hush")

    job.clock.at(30, lambda: setattr(job.store, "control_requests", fail))
    yield kills
    assert len(opening.job.drivers.started) == 1


class Reads:
    """`StoreAccess` without threads."""

    async def read_connection(self, name: str, work: Callable[[], Any]) -> Any:
        return work()

    async def read(self, work: Callable[[], Any]) -> Any:
        return work()


OVERDUE = RunLimits(cancel_at=START + timedelta(seconds=60))


def test_loop_that_fails_after_the_execution_timeout_kills_the_driver(
    job: Simulation, overdue: Kills, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect makes each cycle fail, the execution timeout passes, and the master refuses the first request to kill the driver."""
    overdue.errors = [ClusterUnreachableError("no master answers")]
    event = run(job, OVERDUE)
    assert (event["status"], event["driver"], len(overdue.killed)) == ("error", None, 1)
    assert event["message"].startswith(
        "execution_timeout has passed, and the control loop fails before it can cancel the job, so its driver was killed: "
        "KeyError at test_job_loop.py, line "
    )
    assert "hush" not in event["message"]
    assert (
        "To end the job now, kill the driver in the web UI of its master, and mark the task as failed." in caplog.text
    )
    assert 80 <= job.clock.elapsed < 120, "after a graceful cancellation had its time, and before the queries end"


def test_loop_that_recovers_after_the_execution_timeout_cancels_the_job(job: Simulation, overdue: Kills) -> None:
    """A defect makes each cycle fail until some seconds after the execution timeout."""
    control_requests = job.store.control_requests
    job.clock.at(65, lambda: setattr(job.store, "control_requests", control_requests))
    event = run(job, OVERDUE)
    assert (event["outcome"], event["timed_out"], overdue.killed) == ("CANCELED", True, [])


def test_long_loop_that_first_fails_after_the_execution_timeout_is_restarted(job: Simulation, overdue: Kills) -> None:
    """The store hangs from before the execution timeout until long after it, and then fails once."""
    control_requests = job.store.control_requests

    async def hang() -> ControlRequests:
        job.store.control_requests = control_requests  # type: ignore[method-assign]
        await job.clock.sleep(60)
        raise KeyError("hush")

    job.clock.at(30, lambda: setattr(job.store, "control_requests", hang))
    event = run(job, OVERDUE)
    assert (event["outcome"], event["timed_out"], overdue.killed) == ("CANCELED", True, [])


@pytest.mark.parametrize("owner", ["d/t/other/1", "no token of an attempt"])
@pytest.mark.parametrize("wrote", [True, False], ids=["wrote", "never wrote"])
def test_driver_of_another_attempt_is_not_killed_after_the_execution_timeout(
    job: Simulation, opening: Opening, overdue: Kills, monkeypatch: pytest.MonkeyPatch, owner: str, wrote: bool
) -> None:
    """The connection of a loop is gone, another attempt runs the job elsewhere, and the timeout of the first attempt passes."""
    airflow = FakeComms.install(monkeypatch)
    airflow.xcoms, airflow.task_states = {"attempt": job.spec.attempt}, {"other": {"t": "deferred"}}

    def take_over() -> None:
        job.directory.journal = {
            number: encode_document(replace(decode_document(JournalDocument, document), owner=f"{owner}#loop"))
            for number, document in job.directory.journal.items()
            if number > 1 or not wrote
        }
        newest = decode_document(JournalDocument, max(job.directory.journal.items())[1])
        job.directory.journal[newest.number + 1] = encode_document(replace(newest, number=newest.number + 1))
        opening.errors = [AddressError("connection 'spark_test' is not defined: add it")] * 100

    job.clock.at(40, take_over)
    with pytest.raises(SupersededError, match=owner):
        run(job, OVERDUE)
    assert (overdue.killed, len(opening.errors) < 100) == ([], True)


@pytest.mark.parametrize("error", [api_server_error(), None], ids=["unanswered first", "answered"])
def test_driver_of_an_earlier_attempt_is_killed_as_soon_as_airflow_confirms_its_end(
    job: Simulation, opening: Opening, overdue: Kills, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """A loop never opens the journal, whose newest document is from an earlier try; then its execution timeout passes."""
    airflow = FakeComms.install(monkeypatch)
    job.spec = replace(job.spec, attempt="d/t/r/2")
    airflow.xcoms, airflow.error = {"attempt": "d/t/r/2"}, error

    def hand_over() -> None:
        job.directory.journal = {
            number: encode_document(replace(decode_document(JournalDocument, document), owner="d/t/r/1#loop"))
            for number, document in job.directory.journal.items()
        }
        opening.errors = [AddressError("connection 'spark_test' is not defined: add it")] * 100

    job.clock.at(40, hand_over)
    job.clock.at(90, lambda: setattr(airflow, "error", None))
    assert run(job, OVERDUE)["driver"] is None
    assert len(overdue.killed) == 1
    assert (job.clock.elapsed >= 90) is (error is not None)


def test_journal_of_a_newer_version_ends_the_loop(job: Simulation, opening: Opening) -> None:
    fail_at(job, 30, ForeignDirectoryError("a newer version wrote the journal"))
    event = run(job)
    assert (event["status"], event["message"]) == ("error", "a newer version wrote the journal [foreign-directory]")
    assert event["driver"] is not None
    assert event["is_driver_known"]


def test_loop_that_cannot_read_the_journal_does_not_know_the_driver(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous loop was of a newer version, which has started a driver."""

    async def refuse() -> None:
        raise ForeignDirectoryError("a newer version wrote the journal")

    run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))
    monkeypatch.setattr(job.directory, "newest", refuse)
    event = run(job)
    assert (event["message"], event["driver"]) == ("a newer version wrote the journal [foreign-directory]", None)
    assert not event["is_driver_known"]


def test_cancellation_that_cannot_be_written_fails_and_can_be_repeated(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs, its task ends, and the job directory is not available for longer than a cancellation takes."""
    run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))

    async def unavailable(*_: Any) -> bool:
        raise JobDirectoryError("the storage is not available")

    def cancel() -> None:
        asyncio.run(cancel_job(deployed(job)))

    with monkeypatch.context() as outage:
        outage.setattr(job.ports.directory, "create", unavailable)
        reason = "job 'job' has not ended within 20 s: the job directory cannot be used: the storage is not available"
        with pytest.raises(NotCanceledError, match=rf"^{reason} \[job-directory\]$"):
            cancel()
    cancel()
    assert job.store.views[-1].outcome == "CANCELED"


LATER = "d/t/later run/b"
"""An attempt of another DAG run."""


@pytest.fixture
def after_kill(job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    """The task has failed while its triggerer was frozen; its attempt is `d/t/r/a`."""
    airflow = FakeComms.install(monkeypatch)
    job.spec = replace(job.spec, attempt="d/t/r/a")
    airflow.xcoms, airflow.task_states = {"attempt": "d/t/r/a"}, {"r": {"t": "failed"}}
    return airflow


def run_as(job: Simulation, attempt: str, seconds: int) -> None:
    """Let an attempt run the job for some seconds."""
    spec = replace(job.spec, attempt=attempt)
    limits = RunLimits(recycle_at=job.clock.now() + timedelta(seconds=seconds))
    asyncio.run(Loop(spec, replace(job.ports, may_take_over=None), limits).run())


LATER_RUNS = list(product([0, 30], ["deferred", "running", "queued", "up_for_retry", None]))


@pytest.mark.parametrize(("rescales", "state"), long_except(LATER_RUNS, *LATER_RUNS[:6]))
def test_late_cancellation_leaves_the_job_of_another_run_alone(
    job: Simulation, after_kill: FakeComms, rescales: int, state: str | None
) -> None:
    """However many documents the other run has written: they may hide those of this attempt."""
    run_as(job, "d/t/r/a", 20)
    for number in range(1 + rescales):
        job.store.requests = ControlRequests(requirements={"job": ParallelismRange(1, 1 + number % 2)})
        run_as(job, LATER, 2)
    after_kill.task_states["later run"] = {"t": state}
    with pytest.raises(SupersededError, match="later run"):
        asyncio.run(cancel_job(deployed(job)))
    assert job.store.views[-1].outcome is None


@pytest.mark.parametrize("earlier", ["d/t/r/0", "d/t/ended run/0"])
def test_attempt_that_never_wrote_a_document_is_canceled(job: Simulation, after_kill: FakeComms, earlier: str) -> None:
    """An earlier try or run has left its driver, and a user ends the task before its trigger has started."""
    run_as(job, earlier, 20)
    after_kill.task_states["ended run"] = {"t": "failed"}
    asyncio.run(cancel_job(deployed(job)))
    assert job.store.views[-1].outcome == "CANCELED"


def test_late_cancellation_of_an_earlier_attempt_leaves_the_job_alone(job: Simulation, after_kill: FakeComms) -> None:
    """A user has cleared the task, so another attempt owns it."""
    run_as(job, "d/t/r/a", 20)
    run_as(job, "d/t/r/b", 20)
    after_kill.xcoms["attempt"] = "d/t/r/b"
    with pytest.raises(SupersededError, match="d/t/r/b"):
        asyncio.run(cancel_job(deployed(job)))


def test_cancellation_waits_for_the_answer_whether_another_attempt_runs_the_job(
    job: Simulation, after_kill: FakeComms
) -> None:
    run_as(job, "d/t/r/a", 20)
    run_as(job, LATER, 20)
    after_kill.error = api_server_error()
    with pytest.raises(NotCanceledError, match="Airflow does not answer whether this attempt may take the job over"):
        asyncio.run(cancel_job(deployed(job)))
    assert job.store.views[-1].outcome is None


def test_loop_takes_no_job_over_before_airflow_answers(job: Simulation, after_kill: FakeComms) -> None:
    """The trigger of an outdated attempt starts while Airflow does not answer: the current attempt keeps its job."""
    run_as(job, "d/t/r/b", 20)
    after_kill.error = api_server_error()

    def answer() -> None:
        assert {attempt_of(decode_document(JournalDocument, it).owner) for it in job.directory.journal.values()} == {
            "d/t/r/b"
        }
        after_kill.error, after_kill.xcoms, after_kill.task_states = (
            None,
            {"attempt": "d/t/r/b"},
            {"r": {"t": "deferred"}},
        )

    job.clock.at(90, answer)
    with pytest.raises(SupersededError, match="d/t/r/b"):
        run(job)
    assert job.clock.elapsed >= 90


def test_current_attempt_takes_the_job_over_as_soon_as_airflow_answers(job: Simulation, after_kill: FakeComms) -> None:
    run_as(job, "d/t/r/0", 20)
    after_kill.error, after_kill.task_states = api_server_error(), {"r": {"t": "deferred"}}
    job.clock.at(60, lambda: setattr(after_kill, "error", None))
    event = run(job)
    assert (event["status"], event["outcome"], len(job.drivers.started)) == ("finished", "FINISHED", 1)


def test_outdated_trigger_of_a_task_that_has_ended_takes_nothing_over(job: Simulation, after_kill: FakeComms) -> None:
    """A triggerer was frozen between the assignment and the start of a trigger, whose task a user has ended meanwhile."""
    run_as(job, LATER, 20)
    with pytest.raises(SupersededError, match="later run"):
        run(job)


def test_cancellation_keeps_the_memory_of_the_policy(job: Simulation, opening: Opening) -> None:
    def newest_memory() -> tuple[int, Any]:
        number, document = max(job.directory.journal.items())
        return number, decode_document(JournalDocument, document).memory["resolver"]["policy"]["content"]

    job.follow(LoadPolicy())
    run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))
    handed_over, memory = newest_memory()
    asyncio.run(cancel_job(deployed(job)))
    canceled, kept = newest_memory()
    assert canceled > handed_over
    assert kept == memory
    assert memory["queries"]


def test_cancellation_that_the_driver_does_not_obey_names_the_state(
    job: Simulation, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs, its task ends, and neither the driver nor the master ends the driver in time."""
    job.spec = replace(job.spec, options=replace(job.spec.options, stop_timeout=timedelta(minutes=5)))
    run(job, RunLimits(recycle_at=START + timedelta(seconds=30)))
    began_s = job.clock.elapsed
    monkeypatch.setattr(job.drivers, "tick", lambda *_: None)
    monkeypatch.setattr(job.cluster, "kill", lambda *_: asyncio.sleep(0))
    with pytest.raises(NotCanceledError, match="has not ended within 20 s: its state is Canceling$"):
        asyncio.run(cancel_job(deployed(job)))
    assert job.clock.elapsed - began_s <= 30, "Airflow gives `on_kill` 30 s"


def test_cancellation_that_fails_is_repeated_until_another_attempt_has_taken_the_job_over(
    job: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [JobDirectoryError("the storage is not available"), SupersededError(7, "attempt-2#loop")]

    async def cancel(*_: Any) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(job_loop, "cancel_job", cancel)
    monkeypatch.setattr(job_loop, "CANCEL_RETRY_INTERVAL", timedelta(0))
    caplog.set_level("INFO", job_loop.__name__)
    asyncio.run(cancel_until_ended(deployed(job)))
    first, second = caplog.messages
    assert first == "Job job cannot be canceled now. The cancellation is tried again."
    assert second.startswith("Another attempt has taken job job over: ")


def test_delay_before_a_restart_doubles_to_a_minute_until_a_loop_has_run() -> None:
    restarts = job_loop._Restarts()
    delays = [restarts.delay_s("KeyError", has_run=False) for _ in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [restarts.delay_s("KeyError", has_run=has_run) for has_run in (True, False)] == [1, 2]


def test_driver_is_killed_through_the_cluster_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeMaster() as master:
        ports = f"ui-port={master.port}&rest-port={master.port}"
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", f"spark://{HOST}:7077?{ports}")
        asyncio.run(kill_driver(ConnectionIds("spark_test"), "driver-1"))
        assert master.requests["kill"] == 1
