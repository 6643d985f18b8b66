"""The job under fault, as it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import StagedCode

JOB = "copy"

SCRIPT = Path(__file__).with_name("job_script.py")

SINK = Path(__file__).with_name("strict_sink.py")
"""What scripts under fault import."""

LEASE_S = 12.0

MEMORY_MB = 512
"""Of a driver and of an executor."""

OPTIONS: dict[str, Any] = {
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "1 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "3 s",
    "slot_idle_timeout": 0,
    "stop_timeout": "10 s",
    "deploy_timeout": "2 min",
    "driver_heartbeat_timeout": f"{LEASE_S} s",
    "driver_lease_timeout": f"{LEASE_S} s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"},
    "history_size": 5,
}

CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
}


def deployed(
    job: str, directory: FsspecJobDirectory, code: StagedCode, root: Path, attempt: str, changes: Mapping[str, Any]
) -> JobSpec:
    """The job as deployed by an attempt.

    Args:
        job: its name.
        directory: of the job.
        code: staged there.
        root: where the script reads and writes.
        attempt: that deploys it.
        changes: what differs from the usual, by the names of `JobSpec`; `options` and `conf` are added to the usual ones.
    """
    usual = JobSpec(
        graph=JobGraph.single(job, ParallelismRange(1, 1), max_parallelism=2),
        options=Options.of({**OPTIONS, **changes.get("options", {})}),
        directory=directory.uri,
        script=code.script,
        py_files=code.py_files,
        args=(str(root),),
        conf={**CONF, **changes.get("conf", {})},
        driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
        executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        attempt=attempt,
    )
    others = {name: value for name, value in changes.items() if name not in ("options", "conf")}
    return replace(usual, **others)
