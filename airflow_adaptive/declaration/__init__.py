"""The declaration of a job in a DAG: parameters, validation, `airflow.cfg`, and batches."""
