"""The demo: a streaming job with real data on a real Airflow and a real Spark cluster, while faults are injected."""
