"""Airflow in the simulation: its metadata database, workers, triggerers, and users."""
