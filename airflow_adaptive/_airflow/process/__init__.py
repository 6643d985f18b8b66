"""Runs, cancels and observes jobs in Airflow processes. Operators, sensors and triggers share these functions."""
