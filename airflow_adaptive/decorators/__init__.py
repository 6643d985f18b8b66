"""The task decorator `@task.adaptive_spark`."""

from airflow_adaptive.airflow_internals import require_airflow

require_airflow()
