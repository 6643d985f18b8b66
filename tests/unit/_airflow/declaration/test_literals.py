"""Literals that no rendering can make valid are errors while Airflow parses the DAG; templates are not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_adaptive._airflow.declaration import declared_job
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive.autoscaling import LoadPolicy
from airflow_adaptive.autoscaling.advisor import policy_to_text
from airflow_adaptive.graph import JobGraph, JobVertex, ParallelismRange
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator

FOLDER = Path(__file__).parent
REVERSED = JobGraph(job="j", vertices=(JobVertex(name="read", parallelism=ParallelismRange(3, 1)),))


def make(**changes: Any) -> AdaptiveSparkOperator:
    declared = {"job": "j", "application": "/job.py", "job_directory": "file:///jobs", "parallelism": (1, 4)} | changes
    with DAG("flights", schedule=None):
        return AdaptiveSparkOperator(task_id="t", **declared)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parallelism": (4, 1)}, "job 'j': lower bound 4 of vertex 'job' is higher than its upper bound 1"),
        ({"parallelism": [4, 1]}, "lower bound 4 of vertex 'job' is higher than its upper bound 1"),
        ({"parallelism": "1-4"}, "parallelism '1-4' must be a whole number, or a pair of them (lower, upper)"),
        ({"parallelism": (1, 4.5)}, "parallelism (1, 4.5) must be a whole number, or a pair of them"),
        (
            {"parallelism": "4", "max_parallelism": "2"},
            "upper bound 4 of vertex 'job' exceeds its maximum parallelism 2",
        ),
        ({"job": "my job"}, "job id 'my job' must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
        ({"rescale_policy": LoadPolicy}, "CombinedPolicy, not the class: write LoadPolicy()"),
        (
            {"rescale_policy": "load"},
            "rescale_policy must be a ScheduledPolicy or a LoadPolicy or a CombinedPolicy, not a str",
        ),
        ({"parallelism": 0}, "bounds [0, 0] of vertex 'job' must be greater than zero"),
        (
            {"max_parallelism": 2},
            "upper bound 4 of vertex 'job' exceeds its maximum parallelism 2: set max_parallelism=4 or more",
        ),
        (
            {"parallelism": None, "job_graph": REVERSED},
            "lower bound 3 of vertex 'read' is higher than its upper bound 1",
        ),
        (
            {"job_directory": "jobs"},
            "job_directory 'jobs' is not absolute: write file:///folder, or s3://bucket/folder",
        ),
        ({"application": f"{FOLDER}/gone.py"}, f"application '{FOLDER}/gone.py' does not exist: correct the path"),
        (
            {"parallelism": (2, 1), "job_directory": "jobs"},
            "is higher than its upper bound 1; job_directory 'jobs' is not absolute",
        ),
    ],
)
def test_impossible_literal_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        make(**changes)
    assert message in str(raised.value)


@pytest.mark.parametrize("changes", [{}, {"parallelism": None}])
def test_job_without_bounds_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=r"needs 'parallelism': the bounds of the slots, for example parallelism=\(1, 8\)"
    ):
        AdaptiveSparkOperator(task_id="t", job="j", application="/job.py", job_directory="file:///jobs", **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": "{{ params.bounds }}"},
        {"parallelism": ("{{ 1 }}", "{{ 4 }}")},
        {"parallelism": [4, "{{ 1 }}"]},
        {"parallelism": (1, 8), "max_parallelism": "{{ 32 }}"},
        {"rescale_policy": "{{ params.policy }}"},
        {"rescale_policy": policy_to_text(LoadPolicy())},
        {"job_directory": "{{ params.directory }}/jobs"},
        {"application": f"{FOLDER}/{{{{ ds }}}}.py"},
        {"application": "/opt/jobs/on_the_workers_only.py"},
        {"application": f"{FOLDER}/../../on_the_workers_only.py"},
        {"job_directory": ""},
        {"parallelism": None, "job_type": "batch"},
    ],
)
def test_value_that_may_become_valid_is_left_to_the_task(changes: dict[str, Any]) -> None:
    assert make(**changes).job == "j"


IMPOSSIBLE = {"parallelism": None, "job_directory": "jobs", "application": f"{FOLDER}/gone.py"}


def test_worker_constructs_the_task_of_a_running_job_whatever_its_file_contains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(declared_job, "get_parsing_context", lambda: SimpleNamespace(dag_id="flights", task_id="t"))
    assert make(**IMPOSSIBLE).parallelism == 1


def test_item_of_a_mapped_task_is_left_to_the_task() -> None:
    with DAG("flights", schedule=None):
        mapped = AdaptiveSparkOperator.partial(task_id="t", **IMPOSSIBLE).expand(job=["a"])
    item: Any = mapped.unmap({"job": "a"})
    assert item.job_directory == "jobs"


def test_dag_with_delimiters_of_its_own_may_have_any_template() -> None:
    with DAG(
        "flights", schedule=None, jinja_environment_kwargs={"variable_start_string": "[[", "variable_end_string": "]]"}
    ):
        arguments: dict[str, Any] = {
            "application": "/job.py",
            "job_directory": "[[ var.value.x ]]/jobs",
            "parallelism": 1,
        }
        assert AdaptiveSparkOperator(task_id="t", job="j", **arguments).job == "j"
