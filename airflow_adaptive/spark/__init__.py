"""Clients of Spark's cluster managers; one file for each."""
