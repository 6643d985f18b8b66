"""Parameters that are literals in a DAG file: what no rendering can make valid is an import error of the DAG."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Any

from airflow.sdk import BaseOperator, get_parsing_context

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.declared_job import rendered
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import is_mapped_item
from airflow_adaptive._airflow.process.job_ports import require_absolute
from airflow_adaptive._core.ports import JobKey
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.advisor import require as require_policy


def is_parsed(operator: BaseOperator) -> bool:
    """Return whether Airflow constructs the operator to read the DAG, not to run the task.

    A running job must keep its loop, whatever its DAG file contains meanwhile: the task validates the declaration itself.
    """
    return get_parsing_context().task_id is None and not is_mapped_item(operator)


def require_possible(operator: Any) -> None:
    """Reject literals of an `AdaptiveSparkOperator` that are invalid, while Airflow parses the DAG. The task validates all other values.

    Raises:
        DeclarationError: the message lists all violations.
    """
    directory = operator.job_directory
    try:
        validation.require(
            [
                lambda: JobKey(operator.job).folder,
                lambda: _bounds(operator),
                lambda: _policy(operator),
                lambda: require_absolute(str(directory)) if _is_literal(operator, directory) else None,
                lambda: _script_beside_the_dag_file(operator, operator.application),
            ]
        )
    except DeclarationError as error:
        violations = "; ".join(error.violations)
        raise DeclarationError([f"job {operator.job!r}: {violations}"], code=error.code) from error


def _is_literal(operator: BaseOperator, value: object) -> bool:
    """Return whether a value is text that no template can change. An empty text may come from a variable that only the workers have."""
    dag = operator.get_dag()
    if dag is not None and dag.jinja_environment_kwargs:
        return False
    text = str(value).strip()
    return isinstance(value, str | PurePath) and text != "" and "{{" not in text and "{%" not in text


def _is_fixed(operator: BaseOperator, value: object) -> bool:
    """Return whether no template can change a value, or an item of a list."""
    items = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(item, int | float) or _is_literal(operator, item) for item in items)


def _bounds(operator: Any) -> None:
    if operator.job_graph is not None:
        validation.graph(lambda: operator.job_graph)
    elif _is_fixed(operator, operator.parallelism):
        bounds = rendered({name: getattr(operator, name) for name in ("parallelism", "max_parallelism")})
        maximum = bounds["max_parallelism"] if _is_fixed(operator, operator.max_parallelism) else None
        validation.graph(lambda: JobGraph.single(operator.job, ParallelismRange.of(bounds["parallelism"]), maximum))


def _policy(operator: Any) -> None:
    """Reject what is no policy: its class, which Airflow would call as a template, and text, unless a template renders the JSON text of a policy."""
    policy = operator.rescale_policy
    if isinstance(policy, type) or (_is_literal(operator, policy) and not policy.startswith("{")):
        require_policy(policy, JobGraph.single(operator.job, ParallelismRange.of(1)))


def _script_beside_the_dag_file(operator: BaseOperator, application: object) -> None:
    """Reject a missing script below the folder of the DAG file. Another script may be on the workers only."""
    dag = operator.get_dag()
    if dag is None or not _is_literal(operator, application):
        return
    script, folder = Path(os.path.normpath(str(application))), Path(dag.fileloc).parent
    if script.is_absolute() and script.is_relative_to(folder) and not _may_exist(script):
        raise DeclarationError(
            [f"application {str(script)!r} does not exist: correct the path, or copy the script there"]
        )


def _may_exist(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a folder that this process may not read
        return True
