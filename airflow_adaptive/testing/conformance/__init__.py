"""Conformance vectors: inputs and results recorded on Apache Flink, which the scheduler must reproduce.

    python -m airflow_adaptive.testing.conformance FILE

Each module in `subjects` checks the vectors of some areas. `differences` contains the deliberate differences from Flink.
"""
