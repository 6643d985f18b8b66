"""A job that is declared as a batch is left to spark-submit, with its lineage and its end."""

import sys

import pytest
from airflow.providers.openlineage.utils import spark as openlineage

from airflow_adaptive._airflow.declaration import batch
from airflow_adaptive._airflow.declaration.batch import cores_of
from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import AirflowFailException
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobType, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._engine.spec import JobSpec
from tests.support.airflow.operator_fakes import TASK, FakeInstance, staged

pytestmark = pytest.mark.usefixtures("spark_default")


class FakeSubmission:
    """A `BatchSubmission` that notes what becomes of it."""

    def __init__(self, job: DeclaredJob, conf: dict[str, str]) -> None:
        self.job, self.conf = job, conf
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
    operator = make_batch(
        conf={"spark.sql.shuffle.partitions": 4},
        application_args=["--day", 1],
        env_vars={"DEPTH": 3},
        driver_class_path="/opt/driver.jar",
    )
    assert operator.execute({"ti": FakeInstance()}) == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    submission = operator._batch
    assert submission.history == ["run"]
    assert submission.job.application == script
    assert cores_of(submission.job) == 4
    assert submission.job.application_args == ["--day", "1"]
    assert submission.conf == {"spark.sql.shuffle.partitions": "4"}
    assert submission.job.environment == {"DEPTH": "3"}
    assert submission.job.dependencies.driver_class_path == "/opt/driver.jar"


def test_run_of_the_task_is_the_parent_of_the_lineage_of_a_batch(make_batch, monkeypatch):
    parent = {"spark.openlineage.parentRunId": "run-1"}
    monkeypatch.setattr(openlineage, "_get_parent_job_information_as_spark_properties", lambda _: parent)
    operator = make_batch(conf={"spark.a": 1}, openlineage_inject_parent_job_info=True)
    operator.execute({"ti": FakeInstance()})
    assert operator._batch.conf == {"spark.a": "1"} | parent


def test_graph_may_declare_a_batch_too(make_batch):
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 3), slot_sharing_group="in"),
        JobVertex(name="count", parallelism=ParallelismRange(1, 5), slot_sharing_group="out"),
    )
    operator = make_batch(job_type="streaming", job_graph=JobGraph(job="j", vertices=vertices, job_type=JobType.BATCH))
    operator.execute({"ti": FakeInstance()})
    assert cores_of(operator._batch.job) == 8


@pytest.mark.parametrize(("options", "message"), [({}, "none"), ({"stop_timeout": "7 s"}, "stop_timeout")])
def test_declared_batch_is_reported_in_the_log_once(make_batch, task_log, options, message):
    make_batch(**options).execute({"ti": FakeInstance()})
    warning = (
        "Job 'departures' is declared BATCH. The adaptive scheduler runs streaming jobs only, so the job is submitted with "
        f"spark-submit, as by SparkSubmitOperator, on at most 4 core(s). Options of the scheduler without effect: {message}"
    )
    assert task_log().count(warning) == 1


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
        ({"executor_memory": "much"}, "'much' is not a memory size"),
        ({"conn_id": "nowhere", "driver_cores": 0}, "connection 'nowhere' is not defined"),
        ({"application_args": "--day"}, "application_args must be a list"),
    ],
)
def test_bad_batch_names_the_thing(make_batch, changes, named):
    with pytest.raises((AirflowFailException, DeclarationError), match="departures") as raised:
        make_batch(**changes).execute({"ti": FakeInstance()})
    assert named in str(raised.value)


def test_running_job_is_not_turned_into_a_batch_by_a_new_deployment(make, make_batch):
    event = {
        "attempt": "attempt",
        "spec": encode(staged(make())),
        "connections": {"spark": "spark_default"},
        "base": "file:///jobs",
    }
    redeployed = make_batch()._redeployed(event, TASK, {"ti": FakeInstance()})
    spec = decode(JobSpec, event["spec"])
    assert redeployed == DeployedJob(spec, ConnectionIds("spark_default"), "file:///jobs", TASK)


def test_batch_without_spark_provider_names_the_extra(make_batch, monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark.hooks.spark_submit", None)
    with pytest.raises(
        AirflowFailException, match=r"job 'departures': batches need .*: install 'airflow-adaptive\[batch\]'"
    ):
        make_batch().execute({"ti": FakeInstance()})
