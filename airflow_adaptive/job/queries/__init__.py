"""The workload of a driver: streaming queries, or one batch."""
