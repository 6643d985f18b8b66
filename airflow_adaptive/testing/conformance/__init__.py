"""Conformance vectors: inputs and results that were recorded on Apache Flink, put to this scheduler.

    python -m airflow_adaptive.testing.conformance FILE

Each module judges a few areas of the file; `differences` says where the scheduler differs on purpose.
"""
