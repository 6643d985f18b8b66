"""`@task.adaptive_spark`: the function that builds the queries is in the DAG file."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, task
from airflow.serialization.serialized_objects import DagSerialization

from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import AirflowFailException
from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.decorators.adaptive_spark import AdaptiveSparkDecoratedOperator, adaptive_spark_task
from airflow_adaptive.graph import JobGraph, JobVertex, ParallelismRange
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.operator_fakes import FakeInstance, deferral

CONSTANT = 3


def decorated(function: Any = None, **changes: Any) -> Any:
    """Return a decorated function, as `@task.adaptive_spark` does in a DAG file."""
    return adaptive_spark_task(
        **{"job": "departures", "job_directory": "file:///jobs", "parallelism": (1, 4)} | changes
    )(function or departures)


def departures(spark, parallelism, path="/data", *, carrier=None):
    """Count departures."""
    return spark.readStream.text(os.path.join(path, str(carrier)))


def stream(spark, parallelism, job, carrier=None):
    return spark.readStream.text(f"/data/{job}/{carrier}")


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://127.0.0.1:1?ui-port=1&rest-port=1")
    return FakeComms.install(monkeypatch)


def operator(call: Any) -> AdaptiveSparkDecoratedOperator:
    found = call.operator
    assert isinstance(found, AdaptiveSparkDecoratedOperator)
    return found


def execute(it: AdaptiveSparkDecoratedOperator, map_index: int = -1) -> tuple[JobSpec, str]:
    """Return what the trigger receives, and the staged script of the function."""
    spec = deferral(it.execute, {"ti": FakeInstance(map_index)})._job.spec
    launcher = Path(spec.script.removeprefix("file://"))
    return spec, launcher.with_name(launcher.name.removeprefix("run_")).read_text()


def test_airflow_finds_the_decorator() -> None:
    assert task.adaptive_spark is adaptive_spark_task


def test_call_adds_a_task_that_stages_the_function(airflow: FakeComms, tmp_path: Path) -> None:
    with DAG("flights", schedule=None) as dag:
        it = operator(decorated(job_directory=f"file://{tmp_path}", retries=2)(carrier="UA"))
    assert (it.task_id, it.job, it.retries, it.doc_md) == ("departures", "departures", 2, "Count departures.")
    assert dag.task_ids == ["departures"]
    assert it.outlets == [Asset("adaptive://job/departures")]
    spec, script = execute(it)
    assert (spec.script.rpartition("/")[2], spec.args) == ("run_departures_job.py", ())
    assert "'import os.path'" in script
    assert "partial(departures, **{'carrier': 'UA'})).run()" in script
    assert "@" not in script.replace("@task.adaptive_spark has written", "")
    assert it.application == "departures_job.py"


def test_same_function_has_the_same_script_in_each_try(airflow: FakeComms, tmp_path: Path) -> None:
    it = operator(decorated(job_directory=f"file://{tmp_path}")())
    assert execute(it)[0].script == execute(it)[0].script


def test_templates_of_arguments_and_parameters_are_rendered(airflow: FakeComms, tmp_path: Path) -> None:
    with DAG("flights", schedule=None):
        it = operator(decorated(job_directory=f"file://{tmp_path}", parallelism="{{ bounds }}")(path="{{ base }}/in"))
    it.render_template_fields({"base": "/mnt", "bounds": "(2, 3)"})  # type: ignore[typeddict-unknown-key]
    spec, script = execute(it)
    assert "'path': '/mnt/in'" in script
    assert (spec.graph.vertices[0].parallelism.lower, spec.graph.vertices[0].parallelism.upper) == (2, 3)


def test_native_templates_of_arguments_are_objects_and_text_remains_text(airflow: FakeComms, tmp_path: Path) -> None:
    with DAG("flights", schedule=None, render_template_as_native_obj=True):
        call = decorated(job_directory=f"file://{tmp_path}")(
            path="{{ version }}", carrier=["1.10", "", "{{ options }}"]
        )
    it = operator(call)
    it.render_template_fields({"version": "1.10", "options": {"a": None}})  # type: ignore[typeddict-unknown-key]
    assert it.op_kwargs == {"path": "1.10", "carrier": ["1.10", "", {"a": None}]}
    assert "'carrier': ['1.10', '', {'a': None}]" in execute(it)[1]


def test_override_makes_another_task() -> None:
    with DAG("flights", schedule=None):
        function = decorated()
        first = operator(function())
        second = operator(function.override(task_id="late", job="late", stop_timeout="3 s")(path="/late"))
    assert [(it.task_id, it.job) for it in (first, second)] == [("departures", "departures"), ("late", "late")]
    assert second.options == {"stop_timeout": "3 s"}


def test_default_args_apply_to_the_operator_and_not_to_what_the_driver_passes() -> None:
    with DAG("flights", schedule=None, default_args={"parallelism": (1, 7), "retries": 4, "path": "/default"}):
        function: Any = adaptive_spark_task(job="departures", job_directory="file:///jobs")(departures)
        it = operator(function())
    assert (it.parallelism, it.retries, it.op_kwargs) == ((1, 7), 4, {"path": "/default"})


def test_result_of_another_task_is_an_argument() -> None:
    with DAG("flights", schedule=None):

        @task
        def path() -> str:
            return "/data"

        it = operator(decorated()(path=path()))
    assert it.upstream_task_ids == {"path"}


def test_dag_can_be_written_to_airflows_database() -> None:
    with DAG("flights", schedule=None) as dag:
        decorated()()
        adaptive_spark_task(job_directory="file:///jobs", parallelism=2)(stream).expand(job=["a", "b"])
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert again.task_ids == ["departures", "stream"]
    assert again.get_task("departures").operator_name == "@task.adaptive_spark"


def uses_global(spark, parallelism):
    return CONSTANT


def test_function_that_reads_globals_is_refused_while_airflow_parses_the_dag() -> None:
    with pytest.raises(DeclarationError, match="function 'uses_global' uses what is defined outside of it: CONSTANT"):
        decorated(uses_global)


def needs_context(spark, parallelism, ds, ti=None):
    return ds


def test_context_of_airflow_is_refused_unless_the_call_passes_it() -> None:
    with pytest.raises(
        TypeError, match=r"the driver has no Airflow context: pass ds, ti in the call of 'needs_context'"
    ):
        decorated(needs_context)()
    assert operator(decorated(needs_context)(ds="{{ ds }}", ti="{{ ti.task_id }}")).op_kwargs["ds"] == "{{ ds }}"


@pytest.mark.parametrize(
    ("arguments", "changes", "error"),
    [
        (("/data",), {}, "call 'departures' with keyword arguments only, because the driver passes spark and"),
        ((), {"application": "x.py"}, "the function 'departures' is the application: leave the parameter"),
        ((), {"parallelsm": 3}, "AdaptiveSparkOperator has no parameter 'parallelsm'"),
    ],
)
def test_calls_that_do_not_fit_are_refused(arguments: tuple[Any, ...], changes: dict[str, Any], error: str) -> None:
    with pytest.raises(TypeError, match=error):
        decorated(**changes)(*arguments)


@pytest.mark.parametrize(("name", "error"), [("spark", "keyword arguments only"), ("unknown", "unexpected keyword")])
def test_named_arguments_that_do_not_fit_are_refused(name: str, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        decorated()(**{name: 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"job_type": "batch"},
        {
            "job_graph": JobGraph(
                job="departures",
                vertices=(JobVertex(name="job", parallelism=ParallelismRange(1, 1)),),
                job_type=JobType.BATCH,
            )
        },
    ],
    ids=["parameter", "graph"],
)
def test_batch_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"job 'departures' is a batch.*use @task.pyspark"):
        decorated(**changes)()


@pytest.mark.parametrize(
    ("argument", "error"),
    [({"path": object()}, "must be a JSON value"), ({"carrier": {"password": "x"}}, r"op_kwargs\['carrier'\]")],
)
def test_arguments_that_cannot_be_staged_fail_the_task(
    airflow: FakeComms, tmp_path: Path, argument: dict[str, Any], error: str
) -> None:
    it = operator(decorated(job_directory=f"file://{tmp_path}")(**argument))
    with pytest.raises(AirflowFailException, match=error):
        it.execute({"ti": FakeInstance()})  # type: ignore[typeddict-item]


def mapped(**changes: Any) -> Any:
    declared: dict[str, Any] = {"job_directory": "file:///jobs", "parallelism": 2} | changes
    return adaptive_spark_task(**declared)(stream)


def test_mapped_function_runs_a_fleet(airflow: FakeComms, tmp_path: Path) -> None:
    with DAG("flights", schedule=None):
        fleet = mapped(job_directory=f"file://{tmp_path}").partial(carrier="UA").expand(job=["a", "b"]).operator
    assert fleet.inlets == [
        Asset("adaptive://fleet/flights/stream"),
        Asset("adaptive://job/flights:stream:a"),
        Asset("adaptive://job/flights:stream:b"),
    ]
    assert fleet.outlets == [Asset("adaptive://fleet/flights/stream")]
    it = fleet.unmap({"op_kwargs": {"job": "b"}})
    assert (it.job, it.op_kwargs) == ("b", {"carrier": "UA", "job": "b"})
    _, script = execute(it, map_index=1)
    assert "partial(stream, **{'carrier': 'UA', 'job': 'b'})" in script


def test_call_names_the_job_of_a_function_with_this_parameter() -> None:
    with DAG("flights", schedule=None):
        assert operator(mapped()(job="a")).job == "a"


def test_repeated_and_missing_jobs_of_a_fleet_are_refused() -> None:
    with DAG("flights", schedule=None), pytest.raises(ValueError, match="more than once: a"):
        mapped().expand(job=["a", "a"])
    with DAG("flights", schedule=None), pytest.raises(ValueError, match="must give each item a job of its own"):
        mapped().expand(carrier=["UA"])


def test_job_in_the_decorator_and_in_the_call_is_refused() -> None:
    with pytest.raises(TypeError, match="the parameter 'job' of function 'stream' is the id of the job"):
        mapped(job="a")(job="b")


def test_names_that_are_not_secret_are_accepted(airflow: FakeComms, tmp_path: Path) -> None:
    changes = {"job_directory": f"file://{tmp_path}", "not_secret": ["carrier"]}
    _, script = execute(operator(decorated(**changes)(carrier={"password": "x"})))
    assert "'password': 'x'" in script


def test_result_may_have_an_xcom_for_each_of_its_entries() -> None:
    found = adaptive_spark_task(
        departures, multiple_outputs=True, job="departures", job_directory="file:///jobs", parallelism=2
    )
    assert operator(found()).multiple_outputs
