"""The commands `airflow adaptive ...`, which use the same functions as the REST API."""
