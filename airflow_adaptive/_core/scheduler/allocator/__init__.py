"""Slot allocation: from slots to the parallelism of each vertex, and to the placement of each subtask."""
