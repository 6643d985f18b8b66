"""Publishing: the view of a job that Airflow stores and displays."""
