"""What the Airflow classes share: the declaration of a job in a DAG, its control loop in the triggerer, and its documents in Airflow's stores."""
