"""The graph of a job: its vertices, and the bounds of their parallelism."""

from __future__ import annotations

from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobType, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange

__all__ = ["JobGraph", "JobType", "JobVertex", "ParallelismRange"]
