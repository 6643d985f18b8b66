"""Rescale policies: they advise the bounds of a job by the calendar and by its load, and write nothing else."""
