"""The demonstration: `python -m airflow_adaptive.local.demo`. A story with real data on a real Airflow and a real Spark cluster."""
