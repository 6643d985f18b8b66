"""The REST API in Airflow's API server."""
