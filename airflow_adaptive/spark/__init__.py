"""Clients of Spark's cluster managers, one file or folder each."""
