"""`airflow adaptive ...`: jobs on the command line of Airflow, over the same functions as the REST API."""
