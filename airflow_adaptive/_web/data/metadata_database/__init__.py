"""Jobs in Airflow's metadata database: their Assets, their documents in the state store, and changes.

This is the only package that uses the ORM. As Airflow's REST API, this package supports only the default backend of the state store.
"""
