import asyncio
from datetime import timedelta

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.snapshot import decode, encode

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
    return asyncio.run(operator._stage("attempt"))


def test_job_is_an_asset_that_the_task_reads_and_writes(make):
    operator = make()
    assert Asset("departures") in operator.inlets
    assert Asset("departures") in operator.outlets


def test_spec_carries_bounds_options_and_shapes(make):
    spec = staged(make(scaling_interval_min="5 s", driver_memory="512m", executor_cores=2, executor_memory="2g"))
    assert spec.graph.requirements == {"job": ParallelismRange(1, 4)}
    assert spec.options.scaling_interval_min == timedelta(seconds=5)
    assert (spec.driver.memory_mb, spec.executor.cores, spec.executor.memory_mb) == (512, 2, 2048)


def test_spec_survives_the_way_to_the_triggerer(make):
    spec = staged(make(conf={"spark.sql.shuffle.partitions": 4}, application_args=["--from", 1]))
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
        ({"restart_strategy": "sometimes"}, "sometimes"),
    ],
)
def test_bad_input_names_the_thing(make, changes, named):
    with pytest.raises(AirflowFailException, match="departures|no/path") as raised:
        make(**changes)._spec("attempt")
    assert named in str(raised.value)


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
    ],
)
def test_an_unhappy_end_fails_the_task(make, event, error):
    with pytest.raises(error) as raised:
        make()._result({"status": "finished"} | event)
    assert type(raised.value) is error
    assert "departures" in str(raised.value)


@pytest.mark.parametrize("outcome", ["FINISHED", "SUSPENDED"])
def test_a_happy_end_is_the_result(make, outcome):
    event = {"status": "finished", "outcome": outcome, "restarts": 1, "rescales": 2, "cause": None}
    assert make()._result(event) == {"outcome": outcome, "restarts": 1, "rescales": 2}
