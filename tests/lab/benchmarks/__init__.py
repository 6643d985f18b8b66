"""Benchmarks: each is a program that prints its table, and can put it into tests/lab/results/benchmarks.md."""
