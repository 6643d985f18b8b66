"""The demonstration: `python -m demo`. A story with real data on a real Airflow and a real Spark cluster."""
