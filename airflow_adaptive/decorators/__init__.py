"""The task decorator `@task.adaptive_spark`."""

from airflow_adaptive._airflow.internals import require_airflow

require_airflow()
