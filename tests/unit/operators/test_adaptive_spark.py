import asyncio
import json
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, Asset
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout, TaskDeferred

from airflow_adaptive.autoscaling.advisor import advisor, policy_from_text
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.declaration import batch
from airflow_adaptive.declaration.batch import Batch
from airflow_adaptive.declaration.validation import DeclarationError
from airflow_adaptive.job.protocol.codec import FORMAT, encode_journal, journal_name
from airflow_adaptive.job.protocol.documents import Action, Directive, JournalDocument
from airflow_adaptive.launch.task_result import task_result
from airflow_adaptive.operators import adaptive_spark
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_adaptive.ports import ClusterUnreachableError
from airflow_adaptive.runtime.cluster.capacity_share import bid
from airflow_adaptive.runtime.journal.journal import SupersededError
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler.job_graph import JobGraph, JobType, JobVertex
from airflow_adaptive.scheduler.machine import create
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.snapshot import decode, encode, to_json
from airflow_adaptive.stores.task_xcoms import LINKS
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.support.airflow.fake_supervisor import FakeComms

pytestmark = pytest.mark.usefixtures("spark_default")

SCRIPT = "from airflow_adaptive.job import AdaptiveJob\n"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "departures.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture
def make(tmp_path, script):
    def make(**changes):
        arguments = {
            "task_id": "departures",
            "job": "departures",
            "application": script,
            "job_directory": f"file://{tmp_path}/jobs",
            "parallelism": (1, 4),
        }
        return AdaptiveSparkOperator(**(arguments | changes))

    return make


def staged(operator) -> JobSpec:
    return asyncio.run(operator._declared.stage("attempt"))


def test_job_is_an_asset_that_the_task_reads_and_writes(make):
    operator = make()
    assert Asset("departures") in operator.inlets
    assert Asset("departures") in operator.outlets


def test_spec_carries_bounds_options_and_shapes(make):
    spec = staged(make(scaling_interval_min="5 s", driver_memory="512m", executor_cores=2, executor_memory="2g"))
    assert spec.graph.requirements == {"job": ParallelismRange(1, 4)}
    assert spec.options.scaling_interval_min == timedelta(seconds=5)
    assert (spec.driver.memory_mb, spec.executor.cores, spec.executor.memory_mb) == (512, 2, 2048)


def test_priority_reaches_the_capacity_share(make):
    spec = staged(make(priority=7))
    assert (spec.priority, staged(make()).priority) == (7, 1)
    assert bid(spec, create(spec.graph, spec.options)).priority == 7
    assert spec.deployment == staged(make()).deployment, "a new priority needs no new driver"


@pytest.mark.parametrize("priority", ["high", 1.5, True, None])
def test_priority_that_is_no_whole_number_is_rejected(make, priority):
    with pytest.raises(DeclarationError, match=f"priority {priority!r} must be a whole number"):
        staged(make(priority=priority))


def test_spec_survives_the_way_to_the_triggerer(make):
    spec = staged(make(conf={"spark.task.maxFailures": 8}, application_args=["--from", 1]))
    assert decode(JobSpec, encode(spec)) == spec


def test_code_is_staged_where_spark_finds_it(make, tmp_path):
    spec = staged(make())
    assert spec.script.startswith(f"file://{tmp_path}/jobs/departures/code/")
    assert spec.py_files[0].endswith(".zip")


def test_options_come_from_default_args(script, tmp_path):
    with DAG("d", schedule=None, default_args={"stop_timeout": "7 s"}):
        operator = AdaptiveSparkOperator(
            task_id="t", job="j", application=script, job_directory=f"file://{tmp_path}", parallelism=2
        )
    assert staged(operator).options.stop_timeout == timedelta(seconds=7)


CALENDAR = scheduled_policy(zone="Europe/Berlin", windows=[window("day", (2, 4), start="08:00", end="20:00")])
TOO_MUCH = scheduled_policy(zone="UTC", windows=[window("day", (2, 9), start="08:00", end="20:00")])


@pytest.mark.parametrize("policy", [CALENDAR, LoadPolicy(dry_run=True), CombinedPolicy(calendar=CALENDAR)])
def test_rescale_policy_reaches_the_triggerer_as_it_was_declared(make, policy):
    spec = decode(JobSpec, json.loads(json.dumps(encode(staged(make(rescale_policy=policy))))))
    assert policy_from_text(spec.rescale_policy) == policy
    asked = advisor(spec.rescale_policy)
    assert asked is not None
    assert asked.kind == type(policy).__name__


def test_another_policy_is_no_reason_for_another_driver(make):
    assert staged(make(rescale_policy=CALENDAR)).deployment == staged(make()).deployment


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"rescale_policy": "daily"},
            "rescale_policy is a str: give a ScheduledPolicy or a LoadPolicy or a CombinedPolicy",
        ),
        (
            {"rescale_policy": TOO_MUCH},
            "window 'day': upper bound 9 of vertex 'job' is above its max_parallelism 4: lower it",
        ),
        ({"rescale_policy": CombinedPolicy(calendar=TOO_MUCH)}, "is above its max_parallelism 4"),
        ({"rescale_policy": CALENDAR, "reactive": True}, "rescale_policy has no effect on a job in reactive mode"),
        ({"rescale_policy": CALENDAR, "parallelism": "1-4"}, "parallelism '1-4' must be a whole number"),
    ],
)
def test_policy_that_the_job_can_not_have_is_refused_before_anything_is_staged(make, tmp_path, changes, finding):
    with pytest.raises(ValueError, match=re.escape(finding)):
        staged(make(**changes))
    assert not (tmp_path / "jobs").exists()


def test_batch_with_a_rescale_policy_is_refused(make):
    with pytest.raises(ValueError, match="rescale_policy has no effect on a batch: leave it out"):
        make(job_type="batch", rescale_policy=CALENDAR)._declared.batch()


def test_job_graph_replaces_the_bounds(make):
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 8), stateful=False),
        JobVertex(name="count", parallelism=ParallelismRange(1, 4)),
    )
    spec = staged(make(job_graph=JobGraph(job="departures", vertices=vertices)))
    assert set(spec.graph.requirements) == {"read", "count"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"parallelism": (4, 1)}, "lower bound 4 of vertex 'job' is higher"),
        ({"parallelism": (0, 1)}, "greater than zero"),
        ({"parallelism": (1, 8), "max_parallelism": 4}, "exceeds its maximum parallelism 4"),
        ({"stop_timeout": "soon"}, "stop_timeout"),
        ({"executor_memory": "much"}, "'much' is no memory size"),
        ({"application": "/nowhere/job.py"}, "/nowhere/job.py"),
        ({"job": "no/path"}, "job id 'no/path'"),
        ({"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "spark.hadoop.fs.s3a.secret.key"),
        ({"env": {"AWS_SECRET_ACCESS_KEY": "x"}}, "env['AWS_SECRET_ACCESS_KEY']"),
        ({"parallelism": "1-4"}, "parallelism '1-4' must be a whole number, or a pair"),
        ({"parallelism": (1, "4")}, "must be a whole number, or a pair"),
        ({"parallelism": 1.5}, "must be a whole number, or a pair"),
        ({"executor_cores": 0}, "executor_cores 0 must be 1 or more"),
        ({"driver_memory": "400m"}, "driver_memory of 400 MiB is below the 450 MiB"),
        ({"job_directory": "file://tmp/jobs"}, "job_directory 'file://tmp/jobs' is not absolute"),
        ({"job_directory": "jobs"}, "job_directory 'jobs' is not absolute"),
        ({"application_args": "--input=x"}, "application_args must be a list, for example ['--input=x']"),
        ({"restart_strategy": "sometimes"}, "sometimes"),
    ],
)
def test_bad_input_names_the_thing(make, changes, named):
    with pytest.raises(AirflowFailException, match="departures|no/path") as raised:
        make(**changes)._spec("attempt")
    assert named in str(raised.value)


def test_one_error_tells_all_that_is_wrong(make):
    wrong = make(
        job="no/path",
        job_type="eternal",
        parallelism=(4, 1),
        conn_id="nowhere",
        application="/nowhere/job.py",
        py_files=["/nowhere/more.py"],
        application_args="--input=x",
        conf={"spark.executor.memory": "4g", "spark.my.password": "hush"},
        driver_memory="much",
        executor_cores=0,
        stop_timeout="soon",
        poll_interval="never",
    )
    with pytest.raises(AirflowFailException) as raised:
        wrong._spec("attempt")
    told = str(raised.value)
    assert told.startswith("job 'no/path': job_type 'eternal' is not one of streaming, batch; ")
    for thing in (
        "job id 'no/path'",
        "lower bound 4",
        "connection 'nowhere' is not defined",
        "/nowhere/job.py",
        "/nowhere/more.py",
        "application_args must be a list",
        "'spark.executor.memory'] would have no effect",
        "'spark.my.password']: Airflow would store these secrets in clear text",
        "driver_memory 'much' is no memory size",
        "executor_cores 0",
        "stop_timeout 'soon'",
        "poll_interval 'never'",
    ):
        assert told.count(thing) == 1, thing
    assert "hush" not in told


@pytest.mark.parametrize(
    ("job", "content", "told"),
    [
        ("other", {}, "was written by job 'other': give each job a directory of its own"),
        ("departures", {"format": FORMAT + 1}, "newer than 1: upgrade airflow-adaptive on this side"),
    ],
)
def test_directory_of_another_job_or_version_is_refused_at_once(make, tmp_path, job, content, told):
    directive = Directive(epoch=1, nonce="n", version=1, action=Action.RUN, plan=None)
    document = json.loads(
        encode_journal(JournalDocument(job=job, number=1, at="", owner="o", directive=directive, scheduler={}))
    )
    log = tmp_path / "jobs" / "departures" / "journal"
    log.mkdir(parents=True)
    (log / journal_name(1)).write_text(json.dumps(document | content))
    with pytest.raises(AirflowFailException, match="job 'departures': file://") as raised:
        make()._spec("attempt")
    assert told in str(raised.value)


def test_callback_reaches_the_triggerer_as_plain_data(make, airflow):
    callback = AsyncCallback(SmtpNotifier, kwargs={"to": "oncall@example.com", "subject": "{{ message }}"})
    trigger = deferral(make(on_rescale_callback=callback).execute, {"ti": FakeInstance()})
    assert trigger.on_rescale == {
        "path": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        "kwargs": {"to": "oncall@example.com", "subject": "{{ message }}"},
    }
    assert deferral(make().execute, {"ti": FakeInstance()}).on_rescale is None


@pytest.mark.parametrize(
    ("callback", "told"),
    [
        (print, "on_rescale_callback must be an AsyncCallback"),
        (AsyncCallback(SmtpNotifier, kwargs={"to": object()}), "on_rescale_callback.kwargs must contain text, numbers"),
        (
            AsyncCallback(SmtpNotifier, kwargs={"password": "x"}),
            "on_rescale_callback.kwargs['password']: Airflow would store these secrets in clear text",
        ),
    ],
)
def test_callback_that_can_not_reach_the_triggerer_is_refused(make, callback, told):
    with pytest.raises(AirflowFailException, match="departures") as raised:
        make(on_rescale_callback=callback)._spec("attempt")
    assert told in str(raised.value)


def test_misspelled_parameter_is_told_when_the_dag_is_parsed(make):
    with pytest.raises(TypeError, match=r"'stop_timout': did you mean 'stop_timeout'\?"):
        make(stop_timout="5 s")


def test_secret_is_named_and_not_shown(make):
    with pytest.raises(AirflowFailException) as raised:
        make(env={"API_TOKEN": "hush"})._spec("attempt")
    assert "hush" not in str(raised.value)


def test_job_directory_that_does_not_answer_may_be_retried(make, tmp_path):
    (tmp_path / "jobs").write_text("no directory")
    with pytest.raises(AirflowException, match="departures") as raised:
        make()._spec("attempt")
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("bounds", [2, (2, 2), [2, 2]])
def test_bounds_may_be_a_number_a_pair_or_a_list(make, bounds):
    assert staged(make(parallelism=bounds)).graph.requirements == {"job": ParallelismRange(2, 2)}


@pytest.mark.parametrize("inlets", [None, Asset("raw"), [Asset("raw")]])
def test_job_joins_the_assets_that_are_given(make, inlets):
    assert make(inlets=inlets).inlets[-1] == Asset("departures")


def test_unknown_argument_is_refused_when_the_dag_is_parsed(make):
    with pytest.raises(TypeError, match="cooldown_forever"):
        make(cooldown_forever=True)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"status": "error", "message": "no connection"}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": True}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": False}, AirflowFailException),
        ({"outcome": "CANCELED", "timed_out": True}, AirflowTaskTimeout),
        ({"outcome": "CANCELED", "timed_out": False}, AirflowFailException),
        ({"status": "superseded", "attempt": "other run/1"}, AirflowFailException),
    ],
)
def test_an_unhappy_end_fails_the_task(event, error):
    with pytest.raises(error) as raised:
        task_result("departures", {"status": "finished"} | event, None)
    assert type(raised.value) is error
    assert "departures" in str(raised.value)


@pytest.mark.parametrize("outcome", ["FINISHED", "SUSPENDED"])
def test_a_happy_end_is_the_result(outcome):
    event = {"status": "finished", "outcome": outcome, "restarts": 1, "rescales": 2, "cause": None}
    assert task_result("departures", event, None) == {"outcome": outcome, "restarts": 1, "rescales": 2}


ENDED = {"status": "finished", "restarts": 1, "rescales": 2}


# ---- execute, resume, on_kill ---------------------------------------------------------------------------------------


class FakeInstance:
    """The task instance of a context."""

    dag_id, task_id, run_id = "d", "departures", "r"

    def __init__(self, map_index: int | None = -1, try_number: int = 1, max_tries: int = 0) -> None:
        self.map_index = map_index
        self.try_number = try_number
        self.max_tries = max_tries
        self.pushed: dict[str, str] = {}

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value


@pytest.fixture
def airflow(monkeypatch) -> FakeComms:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://127.0.0.1:1?ui-port=1&rest-port=1")
    return FakeComms.install(monkeypatch)


def deferral(call, *arguments) -> AdaptiveJobTrigger:
    with pytest.raises(TaskDeferred) as raised:
        call(*arguments)
    assert raised.value.method_name == "execute_complete"
    assert isinstance(raised.value.trigger, AdaptiveJobTrigger)
    return raised.value.trigger


@pytest.mark.parametrize(("map_index", "meant"), [(None, -1), (-1, -1), (0, 0), (2, 2)])
def test_trigger_knows_the_task_instance(make, airflow, map_index, meant):
    trigger = deferral(make().execute, {"ti": FakeInstance(map_index)})
    assert trigger.task_key == {"dag_id": "d", "task_id": "departures", "run_id": "r", "map_index": meant}


def test_new_attempt_is_announced_and_withdraws_the_wish_of_an_earlier_run(make, airflow):
    airflow.asset_states = {"desired_state": "canceled"}
    instance = FakeInstance()
    trigger = deferral(make().execute, {"ti": instance})
    assert airflow.asset_states == {"desired_state": "running"}
    assert instance.pushed == {"attempt": trigger.spec["attempt"], **dict.fromkeys(LINKS, "")}


def begin_log(tmp_path: Path, spec: JobSpec, attempt: str = "") -> Path:
    """The loop of this job wrote its first document."""
    directive = Directive(epoch=0, nonce="n", version=0, action=Action.STOP, plan=None)
    state = to_json(create(spec.graph, spec.options))
    document = JournalDocument(
        job="departures", number=1, at="", owner=f"{attempt}#1", directive=directive, scheduler=state
    )
    log = tmp_path / "jobs" / "departures" / "journal"
    log.mkdir(parents=True, exist_ok=True)
    (log / journal_name(1)).write_bytes(encode_journal(document))
    return log


def test_wish_that_a_dead_try_left_is_followed_by_the_next(make, airflow, tmp_path):
    """Its attempt too: an end that the dead try had begun is this one's end, not the start of a new life."""
    first = deferral(make().execute, {"ti": FakeInstance()})._job
    begin_log(tmp_path, first, first.attempt)
    airflow.asset_states = {"desired_state": "suspended"}
    second = deferral(make().execute, {"ti": FakeInstance(try_number=2)})._job
    assert airflow.asset_states == {"desired_state": "suspended"}
    assert second.attempt == first.attempt


@pytest.mark.parametrize(
    ("desired_state", "attempt"),
    [("suspend", "d/departures/another run/1"), ("run", "d/departures/r/1"), (7, "d/departures/r/1")],
)
def test_job_is_to_run_if_its_task_left_no_wish_to_stop(make, airflow, tmp_path, desired_state, attempt):
    begin_log(tmp_path, staged(make()), attempt)
    airflow.asset_states = {"desired_state": desired_state}
    spec = deferral(make().execute, {"ti": FakeInstance()})._job
    assert airflow.asset_states == {"desired_state": "running"}
    assert spec.attempt != attempt


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (ENDED | {"outcome": "SUSPENDED"}, {}),
        (ENDED | {"outcome": "CANCELED", "timed_out": False}, {}),
        (ENDED | {"outcome": "FAILED", "cause": "X", "recoverable": True}, {}),
        ({"status": "superseded", "attempt": "another"}, {"desired_state": "suspended"}),
        ({"status": "error", "message": "no master"}, {"desired_state": "suspended"}),
    ],
)
def test_wish_is_taken_back_when_the_jobs_end_is_told(make, airflow, event, left):
    """So a task that is cleared runs its job; another attempt's wish is not touched."""
    airflow.asset_states = {"desired_state": "suspended"}
    with suppress(AirflowException):
        make().execute_complete({"ti": FakeInstance()}, event)
    assert airflow.asset_states == left


def test_recycled_trigger_goes_on_with_attempt_and_deadline(make, airflow, tmp_path):
    first = deferral(make(execution_timeout=timedelta(hours=1)).execute, {"ti": FakeInstance()})
    begin_log(tmp_path, first._job)
    event = {"status": "recycle", "attempt": first.spec["attempt"], "cancel_at": first.cancel_at}
    airflow.asset_states = {"desired_state": "suspended"}
    assert deferral(make().execute_complete, {"ti": FakeInstance()}, event).serialize() == first.serialize()
    assert airflow.asset_states == {"desired_state": "suspended"}


def test_what_the_triggerer_stores_has_no_secret_of_the_connection(make, airflow, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://:hush@127.0.0.1:1")
    assert "hush" not in str(deferral(make(conn_id="spark_test").execute, {"ti": FakeInstance()}).serialize())


def test_execution_timeout_in_a_worker_cancels_the_job(make, airflow, tmp_path, monkeypatch):
    operator = make(conn_id="spark_test", deferrable=False, poll_interval="10 ms")

    async def until_the_alarm(*_):
        raise AirflowTaskTimeout

    monkeypatch.setattr(adaptive_spark, "run_job_loop", until_the_alarm)
    with pytest.raises(AirflowTaskTimeout):
        operator.execute({"ti": FakeInstance()})
    operator.on_kill()
    assert airflow.xcoms["state"] == "CANCELED"


def test_job_that_runs_elsewhere_now_is_not_canceled(make, airflow, monkeypatch):
    operator = make(conn_id="spark_test", deferrable=False)

    async def taken_over(*_):
        raise SupersededError(7, "other run/1#loop")

    monkeypatch.setattr(adaptive_spark, "run_job_loop", taken_over)
    with pytest.raises(AirflowFailException, match="taken over by 'other run/1'"):
        operator.execute({"ti": FakeInstance()})
    operator.on_kill()
    assert "state" not in airflow.xcoms


def test_flinks_names_and_the_deployments_defaults_are_understood(make, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__STOP_TIMEOUT", "7 s")
    monkeypatch.setenv("AIRFLOW__ADAPTIVE__SCALING_INTERVAL_MIN", "8 s")
    flink = {"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "9 s"}
    options = staged(make(**flink)).options
    assert options.stop_timeout == timedelta(seconds=7)
    assert options.scaling_interval_min == timedelta(seconds=9)


def test_unknown_connection_is_told_before_anything_runs(make):
    with pytest.raises(AirflowFailException, match="connection 'nowhere' is not defined: add it"):
        make(conn_id="nowhere")._spec("attempt")


def test_job_runs_on_as_it_was_when_its_new_code_is_broken(make, script):
    operator = make()
    event = {"attempt": "attempt", "spec": encode(staged(operator))}
    Path(script).write_text("def broken(:")
    assert operator._newest_spec(event) == decode(JobSpec, event["spec"])


def test_recycled_job_whose_directory_is_away_is_not_staged_in_its_place(make, tmp_path):
    spec = staged(make())
    log = begin_log(tmp_path, spec)
    log.parent.rename(tmp_path / "away")
    assert make()._newest_spec({"attempt": "attempt", "spec": encode(spec)}) == spec
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


def test_driver_is_killed_when_nobody_will_look_after_it_any_more(make, kills):
    with pytest.raises(AirflowException, match="the directory is away"):
        make().execute_complete({"ti": FakeInstance(try_number=3, max_tries=2)}, LOST)
    assert kills.killed == ["driver-1"]


def test_driver_is_left_to_the_next_try(make, kills):
    with pytest.raises(AirflowException, match="the directory is away"):
        make().execute_complete({"ti": FakeInstance(try_number=2, max_tries=2)}, LOST)
    assert not kills.killed


def test_driver_that_can_not_be_killed_is_named(make, kills, capsys):
    kills.error = ClusterUnreachableError("no master answers")
    with pytest.raises(AirflowException, match="the directory is away"):
        make().execute_complete({"ti": FakeInstance(try_number=1, max_tries=0)}, LOST)
    assert (
        "Driver driver-1 of job 'departures' may still run. Kill the driver in the web UI of its master. no master answers"
        in capsys.readouterr().out
    )


def test_error_before_there_was_a_driver_kills_nothing(make, kills):
    with pytest.raises(AirflowException, match="no connection"):
        make().execute_complete(
            {"ti": FakeInstance(try_number=1, max_tries=0)}, LOST | {"message": "no connection", "driver": None}
        )
    assert not kills.killed


# ---- batch ----------------------------------------------------------------------------------------------------------


class FakeSubmission:
    """A `BatchSubmission` that notes what becomes of it."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.history: list[str] = []

    def run(self) -> None:
        self.history.append("run")

    def kill(self) -> None:
        self.history.append("kill")


@pytest.fixture
def make_batch(make, monkeypatch):
    monkeypatch.setattr(batch, "BatchSubmission", FakeSubmission)
    return lambda **changes: make(**({"job_type": "batch"} | changes))


def test_declared_batch_is_left_to_spark_submit(make_batch, script):
    operator = make_batch(conf={"spark.sql.shuffle.partitions": 4}, application_args=["--day", 1], env={"DEPTH": 3})
    assert operator.execute({"ti": FakeInstance()}) == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    submission = operator._batch
    assert submission.history == ["run"]
    assert submission.batch.application == script
    assert (submission.batch.slots, submission.batch.cores) == (4, 4)
    assert submission.batch.args == ("--day", "1")
    assert submission.batch.conf == {"spark.sql.shuffle.partitions": "4"}
    assert submission.batch.env == {"DEPTH": "3"}


def test_graph_may_declare_a_batch_too(make_batch):
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 3), slot_sharing_group="in"),
        JobVertex(name="count", parallelism=ParallelismRange(1, 5), slot_sharing_group="out"),
    )
    operator = make_batch(job_type="streaming", job_graph=JobGraph(job="j", vertices=vertices, job_type=JobType.BATCH))
    operator.execute({"ti": FakeInstance()})
    assert operator._batch.batch.slots == 8


@pytest.mark.parametrize(("options", "told"), [({}, "none"), ({"stop_timeout": "7 s"}, "stop_timeout")])
def test_declared_batch_is_told_in_the_log_once(make_batch, capsys, options, told):
    make_batch(**options).execute({"ti": FakeInstance()})
    warning = (
        "Job 'departures' is declared BATCH. The adaptive scheduler runs streaming jobs only, so the job is submitted with "
        f"spark-submit, as by SparkSubmitOperator, on at most 4 core(s). Options of the scheduler without effect: {told}"
    )
    assert capsys.readouterr().out.count(warning) == 1


def test_killing_the_task_of_a_batch_kills_the_batch(make_batch):
    operator = make_batch()
    operator.on_kill()
    operator.execute({"ti": FakeInstance()})
    operator.on_kill()
    assert operator._batch.history == ["run", "kill"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"job_type": "eternal"}, "job_type 'eternal' is not one of streaming, batch"),
        ({"parallelism": (4, 1)}, "lower bound 4 of vertex 'job' is higher"),
        ({"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "spark.hadoop.fs.s3a.secret.key"),
        ({"executor_memory": "much"}, "'much' is no memory size"),
        ({"conn_id": "nowhere"}, "connection 'nowhere' is not defined"),
        ({"application_args": "--day"}, "application_args must be a list"),
    ],
)
def test_bad_batch_names_the_thing(make_batch, changes, named):
    with pytest.raises(AirflowFailException, match="departures") as raised:
        make_batch(**changes).execute({"ti": FakeInstance()})
    assert named in str(raised.value)


def test_running_job_is_not_turned_into_a_batch_by_a_new_deployment(make, make_batch):
    event = {"attempt": "attempt", "spec": encode(staged(make()))}
    assert make_batch()._newest_spec(event) == decode(JobSpec, event["spec"])
