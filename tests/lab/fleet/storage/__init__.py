"""Simulated storages: object stores and file systems with latency, lagging listings and faults, for Airflow and for the drivers."""
