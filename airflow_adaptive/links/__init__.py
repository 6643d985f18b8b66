"""Airflow extra links."""

from airflow_adaptive.airflow_internals import require_airflow

require_airflow()
