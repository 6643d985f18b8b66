"""Airflow hooks: connections and storage as ports of the runtime."""
