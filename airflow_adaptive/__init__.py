"""Run Spark Structured Streaming jobs from Apache Airflow under an adaptive scheduler."""

__version__ = "0.1.0"
