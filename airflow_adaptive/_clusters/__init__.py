"""Clients of Spark's cluster managers, with one module or package for each cluster manager."""
