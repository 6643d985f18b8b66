"""The REST API and the page of adaptive jobs, inside Airflow's API server."""
