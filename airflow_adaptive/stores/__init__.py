"""A job in Airflow's stores: published state, control requests, the change marker, callbacks and metrics."""
