"""The declaration of a job in a DAG: parameters, validation, defaults in `airflow.cfg`, batches and lineage."""
