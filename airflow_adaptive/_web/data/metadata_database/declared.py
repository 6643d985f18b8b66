"""What the newest DAG declares of a job, as far as Airflow's database contains it: the templated parameters, and the DAG file."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import DagCode, SerializedDagModel, serialized_task
from airflow_adaptive._core.deployment import Declaration, declaration, digest
from airflow_adaptive._core.view import TaskKey


def declared_by_dag(task: TaskKey, deployed: Declaration, session: Session) -> Declaration | None:
    """Return what the newest DAG declares, None if Airflow does not store the task.

    Airflow stores no script, and the source of a function only with the rest of its DAG file: the code counts as known if it is a function, and the
    file has not changed since the deployment.
    """
    from airflow_adaptive._airflow.declaration.declared_job import rendered  # noqa: PLC0415  Other requests and commands need no client of a cluster.

    stored = SerializedDagModel.get(task.dag_id, session=session)
    fields = None if stored is None else serialized_task(stored.data, task.task_id)
    if fields is None:
        return None
    query = select(DagCode.source_code).where(DagCode.dag_id == task.dag_id).order_by(DagCode.last_updated.desc())
    dag_file, names = digest(session.scalar(query.limit(1)) or ""), fields.get("template_fields", ())
    # The arguments of a mapped task are those of its items, which only a run has.
    values = {} if fields.get("_is_mapped") else {name: fields.get(name) for name in names}
    is_same_function = "op_kwargs" in names and dag_file == deployed.dag_file != ""
    return declaration(rendered(values), code=deployed.code if is_same_function else "", dag_file=dag_file)
