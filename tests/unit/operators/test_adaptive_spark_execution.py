"""Execution of the operator: it defers or runs the loop, reports the end of the job, and takes over what an earlier try has left."""

import errno
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.openlineage.utils import spark as openlineage
from airflow.sdk import Asset
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR

from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._airflow.internals import AirflowException, AirflowFailException, AirflowTaskTimeout
from airflow_adaptive._airflow.process import job_loop
from airflow_adaptive._airflow.process.job_control import JobControl
from airflow_adaptive._airflow.process.loop_events import recycle_event
from airflow_adaptive._airflow.store.control_requests import store_request
from airflow_adaptive._airflow.store.task_xcoms import LINKS
from airflow_adaptive._core.ports import ClusterUnreachableError, JobDirectoryError
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, ControlRequest, Requester
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive.operators import adaptive_spark
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_versions import TaskDeferralError
from tests.support.airflow.fake_supervisor import api_server_error
from tests.support.airflow.operator_fakes import TASK, FakeInstance, begin_log, deferral, staged

pytestmark = pytest.mark.usefixtures("spark_default")


ENDED = {"status": "finished", "restarts": 1, "rescales": 2}


@pytest.mark.parametrize(("map_index", "meant"), [(None, -1), (-1, -1), (0, 0), (2, 2)])
def test_trigger_knows_the_task_instance(make, airflow, map_index, meant):
    trigger = deferral(make().execute, {"ti": FakeInstance(map_index)})
    assert trigger.task_key == {"dag_id": "d", "task_id": "departures", "run_id": "r", "map_index": meant}
    assert trigger.spec["declaration"]["parameters"]["parallelism"] == [1, 4]


RUNS = {"requests": [], "is_running": True}
"""What the task of a job has recorded while it runs the job."""


def test_new_attempt_is_announced_and_handles_the_desired_state_of_an_earlier_run(make, airflow):
    airflow.asset_states = {"desired_state": {"value": "canceled"}}
    instance = FakeInstance()
    trigger = deferral(make().execute, {"ti": instance})
    assert airflow.desired_state == "running"
    name = trigger.spec["graph"]["job"]
    job = {f"adaptive_job/{name}": {"name": name, "job_directory": trigger.base}}
    assert instance.pushed == {"attempt": trigger.spec["attempt"], **job, **dict.fromkeys(LINKS, "")}


def test_desired_state_that_a_dead_try_left_is_followed_by_the_next(make, airflow, tmp_path):
    """Its attempt too: an end that the dead try had begun is this one's end, not the start of a new life."""
    first = deferral(make().execute, {"ti": FakeInstance()})._job.spec
    begin_log(tmp_path, first, first.attempt)
    airflow.asset_states["desired_state"] = {"value": "suspended"}
    second = deferral(make().execute, {"ti": FakeInstance(try_number=2)})._job.spec
    assert airflow.desired_state == "suspended"
    assert second.attempt == first.attempt


@pytest.mark.parametrize(
    ("desired_state", "attempt"),
    [("suspend", "d/departures/another run/1"), ("run", "d/departures/r/1"), (7, "d/departures/r/1")],
)
def test_job_is_to_run_if_its_task_left_no_desired_state_to_stop(make, airflow, tmp_path, desired_state, attempt):
    begin_log(tmp_path, staged(make()), attempt)
    airflow.asset_states = {"desired_state": {"value": desired_state}, "handled_requests": RUNS}
    spec = deferral(make().execute, {"ti": FakeInstance()})._job.spec
    assert airflow.desired_state == "running"
    assert spec.attempt != attempt


@pytest.mark.parametrize("outcome", [{}, {"desired_state": {"value": "running", "by": "alice"}}])
def test_task_that_was_cleared_after_it_reported_the_end_runs_the_job_again(make, airflow, tmp_path, outcome):
    """Also if a user has made a request after the end."""
    ended = Scenario().given_executing(2).when_completed().state
    begin_log(tmp_path, staged(make()), "d/departures/r/1", ended)
    airflow.asset_states = {**outcome, "handled_requests": {"requests": [], "is_running": False}}
    spec = deferral(make().execute, {"ti": FakeInstance(try_number=2)})._job.spec
    assert (airflow.desired_state, spec.attempt == "d/departures/r/1") == ("running", False)


def test_cancellation_while_the_next_try_reads_the_journal_is_not_lost(make, airflow, tmp_path, monkeypatch):
    """Each read of the journal may take long."""
    first = deferral(make().execute, {"ti": FakeInstance()})._job.spec
    begin_log(tmp_path, first, first.attempt)
    newest_attempt = DeclaredJob.newest_attempt

    async def slow(job: DeclaredJob) -> Any:
        request = ControlRequest(key=DESIRED_STATE, value="canceled", requester=Requester(requested_by="alice"))
        store_request("departures", request)
        return await newest_attempt(job)

    monkeypatch.setattr(DeclaredJob, "newest_attempt", slow)
    deferral(make().execute, {"ti": FakeInstance(try_number=2)})
    assert airflow.desired_state == "canceled"


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (ENDED | {"outcome": "SUSPENDED"}, None),
        (ENDED | {"outcome": "CANCELED", "timed_out": False}, None),
        (ENDED | {"outcome": "FAILED", "cause": "X", "recoverable": True}, None),
        ({"status": "superseded", "attempt": "another"}, "suspended"),
        ({"status": "error", "message": "no master"}, "suspended"),
    ],
)
def test_desired_state_is_handled_when_the_end_of_the_job_is_reported(make, airflow, event, left):
    """A cleared task therefore runs its job. The desired state of another attempt does not change."""
    airflow.asset_states = {"desired_state": {"value": "suspended"}, "handled_requests": RUNS}
    with suppress(AirflowException):
        make().execute_complete({"ti": FakeInstance()}, event)
    assert airflow.desired_state == left


@pytest.mark.parametrize("request_at", ["before the end is reported", "while Airflow waits"])
@pytest.mark.parametrize(("run_id", "left"), [("r", "canceled"), ("another", "running")])
def test_cancellation_of_a_failed_job_applies_to_its_next_try(make, airflow, request_at, run_id, left):
    """Its loop reads the request before it starts a driver. Another run of the DAG runs the job."""
    deferral(make().execute, {"ti": FakeInstance(max_tries=1)})
    cancellation = ControlRequest(key=DESIRED_STATE, value="canceled", requester=Requester(requested_by="alice"))
    if request_at == "before the end is reported":
        store_request("departures", cancellation)
    with suppress(AirflowException):
        failed = ENDED | {"outcome": "FAILED", "cause": "X", "recoverable": True}
        make().execute_complete({"ti": FakeInstance(max_tries=1)}, failed)
    if request_at == "while Airflow waits":
        store_request("departures", cancellation)
    following = FakeInstance(try_number=2, max_tries=1)
    following.run_id = run_id
    deferral(make().execute, {"ti": following})
    assert airflow.desired_state == left


@pytest.mark.parametrize("summary", [None, {"state": "Deploying"}, {"state": "Deploying", "outcome": None}])
@pytest.mark.parametrize("outcome", ["FINISHED", "FAILED", "CANCELED", "SUSPENDED"])
def test_task_reports_the_end_that_its_loop_could_not_publish(make, airflow, summary, outcome):
    """The loop ended while Airflow's store did not answer, or a late write has replaced its last one."""
    airflow.asset_states = {"handled_requests": RUNS} | ({} if summary is None else {"summary": summary})
    event = ENDED | {"outcome": outcome, "cause": "disk \0 full", "recoverable": False, "parallelism": None}
    with suppress(AirflowException):
        make().execute_complete({"ti": FakeInstance()}, event | {"timed_out": False})
    found = JobControl("departures").known_summary()
    assert (found.status, found.state, found.restarts, found.cause) == (
        outcome,
        "Finished",
        1,
        "disk \N{REPLACEMENT CHARACTER} full",
    )
    end = airflow.asset_states["handled_requests"]["end"]
    assert (end["slots"], end["parallelism"]) == ({"held": 0, "available": 0}, None)
    deferral(make().execute, {"ti": FakeInstance()})
    assert getattr(JobControl("departures").summary(), "outcome", None) is None


def test_job_that_was_resumed_before_its_suspension_was_published_starts_again(make, airflow):
    """The user reads that the job runs, although the journal already contains its end, and requests that the job runs."""
    airflow.asset_states = {"desired_state": {"value": "running", "by": "alice", "via": "REST"}}
    instance = FakeInstance()
    trigger = deferral(make(on_suspend="fail").execute_complete, {"ti": instance}, ENDED | {"outcome": "SUSPENDED"})
    assert (airflow.desired_state, instance.pushed["attempt"]) == ("running", trigger.spec["attempt"])


def test_suspended_job_does_not_start_again_because_of_the_request_of_its_own_task(make, airflow):
    """A backup of Airflow's database is restored. It contains the request of the task at its start, and not the later request of the user."""
    deferral(make().execute, {"ti": FakeInstance()})
    result = make().execute_complete({"ti": FakeInstance()}, ENDED | {"outcome": "SUSPENDED"})
    assert (result["outcome"], airflow.desired_state) == ("SUSPENDED", None)


def test_recycled_trigger_goes_on_with_attempt_and_deadline(make, airflow, tmp_path):
    first = deferral(make(execution_timeout=timedelta(hours=1)).execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec)
    event = recycled(first)
    event["connections"]["of_a_later_version"] = event["of_a_later_version"] = "ignored"
    airflow.asset_states["desired_state"] = {"value": "suspended"}
    assert deferral(make().execute_complete, {"ti": FakeInstance()}, event).serialize() == first.serialize()
    assert airflow.desired_state == "suspended"


def recycled(trigger: AdaptiveJobTrigger) -> dict[str, Any]:
    """The event of a trigger whose lifetime has passed."""
    cancel_at = None if trigger.cancel_at is None else datetime.fromisoformat(trigger.cancel_at)
    return recycle_event(trigger._job, cancel_at)


def test_run_of_the_task_is_the_parent_of_the_lineage_of_spark(make, airflow, monkeypatch):
    """The driver of an earlier run of the task continues, because the lineage is no reason for a new driver."""
    runs = iter(("run-1", "run-2"))
    parent = "spark.openlineage.parentRunId"
    monkeypatch.setattr(openlineage, "_get_parent_job_information_as_spark_properties", lambda _: {parent: next(runs)})
    job = make(openlineage_inject_parent_job_info=True)
    first, second = (deferral(job.execute, {"ti": FakeInstance()})._job.spec for _ in range(2))
    assert [spec.conf[parent] for spec in (first, second)] == ["run-1", "run-2"]
    assert first.deployment == second.deployment


def test_event_of_a_triggerer_of_another_version_is_refused_with_the_remedy(make, airflow, tmp_path):
    """The lifetime of a trigger passes, and the worker cannot read the job that the triggerer encoded."""
    event = recycled(deferral(make().execute, {"ti": FakeInstance()}))
    event["spec"] |= {"graph": None}
    with pytest.raises(
        AirflowException, match="install the same version of airflow-adaptive in all Airflow comp"
    ) as info:
        make().execute_complete({"ti": FakeInstance()}, event)
    assert not isinstance(info.value, AirflowFailException), "a retry adopts the job"


@pytest.mark.parametrize("has_journal", [False, True], ids=["empty directory", "directory with an old journal"])
def test_running_job_stays_in_its_directory_when_the_dag_names_another_one(
    make, airflow, tmp_path, task_log, has_journal
):
    """The job runs, an author edits `job_directory`, and the lifetime of the trigger passes."""
    first = deferral(make().execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec)
    if has_journal:
        begin_log(tmp_path / "other", first._job.spec)
    moved = make(job_directory=f"file://{tmp_path}/other/jobs", parallelism=(2, 3))
    assert deferral(moved.execute_complete, {"ti": FakeInstance()}, recycled(first)).serialize() == first.serialize()
    assert not (tmp_path / "other" / "jobs" / "departures" / "code").exists()
    assert "A running job cannot move" in task_log()


def test_new_run_begins_no_second_journal_while_the_job_runs_in_another_directory(make, airflow, tmp_path):
    """The task of a running job fails, an author edits `job_directory`, and the DAG runs again."""
    first = deferral(make().execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec)
    with pytest.raises(AirflowFailException, match="A running job cannot move: suspend the job, copy that directory"):
        make(job_directory=f"file://{tmp_path}/other/jobs").execute({"ti": FakeInstance()})


def test_job_that_has_ended_starts_in_another_directory(make, airflow, tmp_path):
    job = Scenario().given_executing(2).when_canceled().when_driver_ended()
    first = deferral(make().execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec, state=job.state)
    moved = make(job_directory=f"file://{tmp_path}/other/jobs")
    assert deferral(moved.execute, {"ti": FakeInstance()}).base == moved.job_directory


def test_running_job_stays_on_its_cluster_when_the_dag_names_another_one(
    make, airflow, monkeypatch, task_log, tmp_path
):
    """The job runs, an author edits `conn_id`, and the lifetime of the trigger passes."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_OTHER", "spark://other.example.org:7077")
    first = deferral(make(conn_id="spark_test").execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec)
    moved = make(conn_id="spark_other")
    assert deferral(moved.execute_complete, {"ti": FakeInstance()}, recycled(first)).serialize() == first.serialize()
    assert "A running job cannot move" in task_log()


@pytest.mark.parametrize("is_defined", [True, False], ids=["same cluster", "the old connection is gone"])
def test_running_job_uses_a_renamed_connection(make, airflow, monkeypatch, tmp_path, is_defined):
    """The job runs, an administrator renames the connection and the author edits `conn_id`; then the trigger is recycled."""
    first = deferral(make(conn_id="spark_test").execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job.spec)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_RENAMED", "spark://127.0.0.1:1?ui-port=1&rest-port=1")
    if not is_defined:
        monkeypatch.delenv("AIRFLOW_CONN_SPARK_TEST")
    renamed = make(conn_id="spark_renamed")
    trigger = deferral(renamed.execute_complete, {"ti": FakeInstance()}, recycled(first))
    assert trigger.connections["spark"] == "spark_renamed"


def test_what_the_triggerer_stores_has_no_secret_of_the_connection(make, airflow, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://:hush@127.0.0.1:1")
    assert "hush" not in str(deferral(make(conn_id="spark_test").execute, {"ti": FakeInstance()}).serialize())


@pytest.fixture
def timed_out(make, airflow, monkeypatch):
    """The operator of a job whose task reached its execution timeout in a worker; cancellations are repeated at once."""
    operator = make(conn_id="spark_test", deferrable=False, poll_interval="10 ms")

    async def until_the_alarm(*_):
        raise AirflowTaskTimeout

    monkeypatch.setattr(adaptive_spark, "run_job_loop", until_the_alarm)
    monkeypatch.setattr(job_loop, "CANCEL_RETRY_INTERVAL", timedelta(0))
    with pytest.raises(AirflowTaskTimeout):
        operator.execute({"ti": FakeInstance()})
    return operator


def test_execution_timeout_in_a_worker_cancels_the_job(timed_out, airflow):
    timed_out.on_kill()
    assert airflow.xcoms["state"] == "CANCELED"


def test_cancellation_that_never_succeeds_in_a_worker_names_the_remedy(timed_out, monkeypatch, task_log):
    ended = threading.Event()

    async def cancel(*_):
        if not ended.is_set():
            raise JobDirectoryError("the storage is not available")

    monkeypatch.setattr(job_loop, "cancel_job", cancel)
    monkeypatch.setattr(adaptive_spark, "KILL_TIMEOUT", timedelta(seconds=1))
    timed_out.on_kill()
    ended.set()
    assert (
        "Job 'departures' was not canceled within 1 s, and its driver may still run. Kill the driver in the web UI of its master, or "
        "run the job again" in task_log()
    )


def test_job_that_runs_elsewhere_now_is_not_canceled(make, airflow, monkeypatch):
    operator = make(conn_id="spark_test", deferrable=False)

    async def taken_over(*_):
        raise SupersededError(7, "other run/1#loop")

    monkeypatch.setattr(adaptive_spark, "run_job_loop", taken_over)
    with pytest.raises(AirflowFailException, match="taken over by 'other run/1'"):
        operator.execute({"ti": FakeInstance()})
    operator.on_kill()
    assert "state" not in airflow.xcoms


@pytest.mark.parametrize("changes", [{"driver_cores": 0}, {"driver_cores": 0, "job_type": "batch"}])
def test_links_of_a_task_that_fails_at_once_exist_because_airflow_logs_missing_ones(make, changes):
    instance = FakeInstance()
    operator = make(**changes)
    assert not operator.has_links
    with pytest.raises(AirflowFailException):
        operator.execute({"ti": instance})
    assert instance.pushed == dict.fromkeys(LINKS, "")
    assert operator.has_links


def test_links_of_a_task_that_resumes_exist(make):
    operator = make()
    with pytest.raises(TaskDeferralError):
        operator.resume_execution(
            TRIGGER_FAIL_REPR, {"error": "the triggerer lost the trigger"}, {"ti": FakeInstance()}
        )
    assert operator.has_links


def test_unknown_connection_is_reported_before_anything_runs(make):
    with pytest.raises(AirflowException, match="connection 'nowhere' is not defined: add it") as raised:
        make(conn_id="nowhere")._spec("attempt", TASK)
    assert not isinstance(raised.value, AirflowFailException), "the secrets backend may be down"


def test_unknown_connection_is_final_beside_an_error_that_no_retry_corrects(make):
    with pytest.raises(AirflowFailException, match="connection 'nowhere' is not defined: add it"):
        make(conn_id="nowhere", driver_cores=0)._spec("attempt", TASK)


def test_file_system_that_fails_now_may_be_retried(make, script, monkeypatch):
    read = Path.read_bytes

    def fail(path):
        if str(path) == script:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(AirflowException, match="cannot be read now") as raised:
        make()._spec("attempt", TASK)
    assert not isinstance(raised.value, AirflowFailException)


def test_job_runs_on_as_it_was_when_its_new_code_is_broken(make, airflow, script):
    operator = make()
    first = deferral(operator.execute, {"ti": FakeInstance()})
    Path(script).write_text("def broken(:")
    again = deferral(operator.execute_complete, {"ti": FakeInstance()}, recycled(first))
    assert again.serialize() == first.serialize()


def test_recycled_job_whose_directory_is_away_is_not_staged_in_its_place(make, airflow, tmp_path):
    first = deferral(make().execute, {"ti": FakeInstance()})
    log = begin_log(tmp_path, first._job.spec)
    log.parent.rename(tmp_path / "away")
    again = deferral(make().execute_complete, {"ti": FakeInstance()}, recycled(first))
    assert again.serialize() == first.serialize()
    assert not log.parent.exists()


class Kills:
    """`kill_driver`, in memory."""

    def __init__(self) -> None:
        self.killed: list[str] = []
        self.error: Exception | None = None

    async def __call__(self, conn_id: str, driver: str) -> None:
        if self.error is not None:
            raise self.error
        self.killed.append(driver)


@pytest.fixture
def kills(monkeypatch) -> Kills:
    kills = Kills()
    monkeypatch.setattr(adaptive_spark, "kill_driver", kills)
    return kills


LOST = {"status": "error", "message": "the directory is away", "driver": "driver-1"}


def test_driver_is_killed_when_no_one_will_supervise_it_any_more(make, kills):
    end = "the directory is away; driver driver-1 was killed, because the task has no retries left"
    with pytest.raises(AirflowException, match=end):
        make().execute_complete({"ti": FakeInstance(try_number=3, max_tries=2)}, LOST)
    assert kills.killed == ["driver-1"]


def test_driver_is_left_to_the_next_try(make, kills):
    with pytest.raises(AirflowException, match="is away; driver driver-1 continues, and the next try adopts it"):
        make().execute_complete({"ti": FakeInstance(try_number=2, max_tries=2)}, LOST)
    assert not kills.killed


def test_driver_that_can_not_be_killed_is_named(make, kills):
    kills.error = ClusterUnreachableError("no master answers")
    end = (
        r"is away; driver driver-1 may still run: kill it in the web UI .*, or run the job again \(no master answers\)"
    )
    with pytest.raises(AirflowException, match=end):
        make().execute_complete({"ti": FakeInstance(try_number=1, max_tries=0)}, LOST)


def test_driver_of_a_journal_that_cannot_be_read_may_still_run(make, kills):
    event = LOST | {"driver": None, "is_driver_known": False}
    with pytest.raises(AirflowException, match="is away; a driver of the job may still run, without a control loop"):
        make().execute_complete({"ti": FakeInstance(try_number=1, max_tries=0)}, event)
    assert not kills.killed


def test_error_before_there_was_a_driver_kills_nothing(make, kills):
    with pytest.raises(AirflowException, match="no connection"):
        make().execute_complete(
            {"ti": FakeInstance(try_number=1, max_tries=0)}, LOST | {"message": "no connection", "driver": None}
        )
    assert not kills.killed


@pytest.mark.parametrize(("outcome", "is_emitted"), [("FINISHED", True), ("SUSPENDED", False)])
def test_only_a_job_that_finished_emits_asset_events(make, airflow, outcome, is_emitted):
    operator = make(outlets=[Asset("out")])
    operator.execute_complete({"ti": FakeInstance()}, ENDED | {"outcome": outcome})
    assert operator.outlets == ([Asset("out"), Asset("adaptive://job/departures")] if is_emitted else [])


@pytest.mark.parametrize(
    ("owner", "ended", "is_reported"),
    [
        ("arrivals/job/manual/2f6c", False, True),
        ("d/departures/earlier/2f6c", False, True),
        ("d/departures/r/2f6c", False, False),
        ("arrivals/job/manual/2f6c", True, False),
    ],
    ids=["another DAG", "another run", "an earlier try", "a job that has ended"],
)
def test_job_that_another_task_runs_is_reported_with_the_remedy(
    make, airflow, tmp_path, task_log, owner, ended, is_reported
):
    spec = staged(make())
    job = Scenario().given_executing(2)
    begin_log(tmp_path, spec, owner, (job.when_canceled().when_driver_ended() if ended else job).state)
    deferral(make().execute, {"ti": FakeInstance()})
    reported = f"was started by {owner!r} (DAG/task/run/attempt), and this task takes the job over"
    assert (reported in task_log() and "run the job in one task only" in task_log()) is is_reported


def test_job_starts_although_the_directory_cannot_be_read_for_the_warning(make, airflow, monkeypatch, task_log):
    async def fails(job: DeclaredJob) -> Any:
        raise JobDirectoryError("503 Slow Down")

    monkeypatch.setattr(DeclaredJob, "newest_attempt", fails)
    deferral(make().execute, {"ti": FakeInstance()})
    assert "Whether another task runs job 'departures' is unknown: 503 Slow Down" in task_log()


@pytest.mark.parametrize(
    ("owner", "is_finished", "is_continued"),
    [
        ("d/departures/r/2f6c", True, True),
        ("d/departures/r/2f6c", False, False),
        ("d/departures/earlier/2f6c", True, False),
    ],
    ids=["a finished job", "a job that runs", "an earlier run"],
)
def test_job_whose_end_an_earlier_try_could_not_report_does_not_run_again(
    make, airflow, tmp_path, owner, is_finished, is_continued
):
    """The earlier try died before it reported the end of the job, so this try continues its attempt, which has ended."""
    spec, job = staged(make()), Scenario().given_executing(2)
    begin_log(tmp_path, spec, owner, (job.when_completed() if is_finished else job).state)
    airflow.asset_states = {"handled_requests": {"requests": [], "is_running": True}}
    trigger = deferral(make().execute, {"ti": FakeInstance(try_number=2)})
    assert (trigger.spec["attempt"] == owner) is is_continued


@pytest.mark.parametrize("outcome", ["FINISHED", "SUSPENDED"])
def test_error_of_the_withdrawal_does_not_let_the_next_try_run_an_ended_job(make, airflow, task_log, outcome):
    """The report is stored, and the response is lost: the next try would not know that the job has ended."""
    airflow.error = api_server_error()
    event = {"status": "finished", "outcome": outcome, "restarts": 0, "rescales": 0}
    assert make().execute_complete({"ti": FakeInstance()}, event)["outcome"] == outcome
    assert "The end of job 'departures' was not reported to Airflow's store: API_SERVER_ERROR" in task_log()


class OtherInstance(FakeInstance):
    """A task of another DAG."""

    dag_id = "copies"


@pytest.mark.parametrize("base", ["jobs", "other"], ids=["one job directory", "two job directories"])
def test_second_task_with_the_job_is_refused_before_anything_is_staged(make, airflow, tmp_path, base):
    """The loop of the first task has not written its journal yet."""
    deferral(make().execute, {"ti": FakeInstance()})
    before = sorted(tmp_path.rglob("*"))
    second = make(job_directory=f"file://{tmp_path}/{base}")
    with pytest.raises(
        AirflowFailException, match=r"job 'departures': the job belongs to task 'd/departures'"
    ) as raised:
        second.execute({"ti": OtherInstance()})
    assert "moved_from='d/departures'" in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_task_with_the_name_of_the_previous_one_gets_the_job(make, airflow):
    deferral(make().execute, {"ti": FakeInstance()})
    deferral(make(moved_from="d/departures").execute, {"ti": OtherInstance()})
    with pytest.raises(AirflowFailException, match="belongs to task 'copies/departures'"):
        make().execute({"ti": FakeInstance()})


def test_job_whose_directory_belongs_to_another_airflow_is_refused(make, airflow):
    """Airflow's database is another one, so only the directory knows the owner."""
    deferral(make().execute, {"ti": FakeInstance()})
    airflow.asset_states.clear()
    with pytest.raises(
        AirflowFailException, match=r"belongs to task 'd/departures' \(file://.*/owners/0000000001.json\)"
    ):
        make().execute({"ti": OtherInstance()})
    assert "owner" not in airflow.asset_states
