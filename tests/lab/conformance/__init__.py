"""Conformance vectors: inputs and results recorded on Apache Flink, which the scheduler must reproduce.

    python -m tests.lab.conformance FILE

Each module in `subjects` checks the vectors of some areas. `differences` contains the deliberate differences from Flink.
"""
