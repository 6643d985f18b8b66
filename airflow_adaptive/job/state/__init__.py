"""The state of streaming queries: checkpoints and their repartitioning."""
