"""The check of a DAG in CI lists all violations of its declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive.operators import AdaptiveSparkOperator
from airflow_adaptive.testing import validate

pytestmark = pytest.mark.usefixtures("spark_default")


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "departures.py"
    file.write_text("from airflow_adaptive.job import AdaptiveJob\n")
    return str(file)


def dag_of(**arguments: Any) -> DAG:
    with DAG("flights", params={"directory": "/tmp/flights"}) as dag:
        AdaptiveSparkOperator(
            **{
                "task_id": "departures",
                "job": "departures",
                "job_directory": "file://{{ params.directory }}/jobs",
                "parallelism": (1, 4),
                **arguments,
            }
        )
    return dag


def test_valid_declaration_with_templates_raises_nothing(script: str) -> None:
    validate(dag_of(application=script, application_args=["--day={{ ds }}", "--job={{ task.job }}"]))


def test_parameters_of_the_run_replace_those_of_the_dag(script: str) -> None:
    dag = dag_of(application="{{ params.directory }}/departures.py")
    with pytest.raises(DeclarationError, match="/tmp/flights/departures.py"):
        validate(dag)
    validate(dag, directory=str(Path(script).parent))


def test_all_violations_are_listed_with_their_tasks(script: str) -> None:
    dag = dag_of(application="/missing.py", conf={"spark.executor.instances": "3"})
    with dag:
        AdaptiveSparkOperator(
            task_id="delays",
            job="delays",
            application=script,
            job_directory="file:///jobs",
            parallelism=(1, 4),
            stop_timeout="soon",
        )
    with pytest.raises(DeclarationError) as raised:
        validate(dag)
    assert [violation.partition(":")[0] for violation in raised.value.violations] == ["task 'departures'"] * 2 + [
        "task 'delays'"
    ]


def test_function_and_items_of_a_fleet_are_checked(script: str) -> None:
    with DAG("fleet") as dag:

        @task.adaptive_spark(job_directory="file:///tmp/jobs", parallelism=(1, 2))
        def airports(spark: Any, parallelism: Any, job: str, directory: str) -> Any:
            return spark.readStream.text(directory).writeStream.format("noop")

        airports.partial(directory="/tmp").expand(job=["newark", "kennedy"])
        AdaptiveSparkOperator.partial(
            task_id="delays", application=script, job_directory="file:///tmp/jobs"
        ).expand_kwargs([{"job": "a", "parallelism": (1, 4)}, {"job": "b", "parallelism": (4, 1)}])
    with pytest.raises(DeclarationError) as raised:
        validate(dag)
    (violation,) = raised.value.violations
    assert "lower bound 4" in violation


def test_other_tasks_are_left_alone() -> None:
    with DAG("others") as dag:

        @task
        def report() -> None:
            pass

        report()
    validate(dag)
