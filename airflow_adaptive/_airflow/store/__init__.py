"""Airflow's stores: control requests, published documents, XComs, change markers, metrics and the rescale callback."""
