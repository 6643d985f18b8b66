"""Benchmarks: each is a program that prints its table, and can put it into docs/benchmarks.md."""
