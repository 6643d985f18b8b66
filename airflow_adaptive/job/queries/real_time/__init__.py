"""Queries in Spark's Real-Time Mode: their gang of tasks, and what they require before their start."""
