"""Running jobs in an Airflow process: resources that loops share, and helpers of operators and triggers."""
