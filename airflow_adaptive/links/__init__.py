"""Airflow extra links."""

from airflow_adaptive._airflow.internals import require_airflow

require_airflow()
