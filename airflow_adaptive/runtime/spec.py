"""What a deployment says of a job beside its graph and options: the script, the resources, and where everything lies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256

from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph

LEAST_MEMORY_MB = 450
"""Below it neither a driver nor an executor starts (`org.apache.spark.memory.UnifiedMemoryManager`)."""


FINGERPRINT_CHARACTERS = 16
"""Enough to tell deployments of one job apart, too few to find out what they hold."""


class SizeError(ValueError):
    """A driver or an executor that Spark would not start.

    Attributes:
        violations: everything that is wrong with its size.
    """

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


def _check_size(name: str, cores: object, memory_mb: int) -> None:
    violations = []
    if not isinstance(cores, int) or cores < 1:
        violations.append(f"{name}_cores {cores!r} must be 1 or more")
    if memory_mb < LEAST_MEMORY_MB:
        violations.append(f"{name}_memory of {memory_mb} MiB is below the {LEAST_MEMORY_MB} MiB that Spark asks for")
    if violations:
        raise SizeError(violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorShape:
    """Size of one executor; a slot is one of its cores."""

    cores: int = 1
    memory_mb: int = 1024

    def __post_init__(self) -> None:
        """Refuse what Spark refuses later. Raises `SizeError`."""
        _check_size("executor", self.cores, self.memory_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverShape:
    """Size of the driver."""

    cores: int = 1
    memory_mb: int = 1024

    def __post_init__(self) -> None:
        """Refuse what Spark refuses later. Raises `SizeError`."""
        _check_size("driver", self.cores, self.memory_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as deployed.

    Attributes:
        graph: vertices and their bounds.
        options: of the scheduler.
        directory: URI of the job directory as Spark reads it.
        script: URI of the staged PySpark script.
        py_files: URIs of the staged zip with the driver's runtime and of the author's zips and modules.
        args: arguments of the script.
        conf: Spark properties of the user; they may hold secrets.
        env: environment of the driver process.
        driver: size of the driver.
        executor: size of an executor.
        attempt: token of the attempt that deploys it; the same attempt never starts a finished job again.
        priority: among jobs that compete for slots one with a higher priority goes first.
        rescale_policy: as text (`autoscaling.advisor`), which nobody here reads; None without one.
    """

    graph: JobGraph
    options: Options
    directory: str
    script: str
    py_files: tuple[str, ...]
    args: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver: DriverShape = DriverShape()
    executor: ExecutorShape = ExecutorShape()
    attempt: str = ""
    priority: int = 1
    rescale_policy: str | None = None

    @property
    def deployment(self) -> str:
        """Fingerprint of what a driver is started with: one that was started with something else runs an outdated job."""
        parts = [self.script, self.py_files, self.args, dict(self.conf), dict(self.env)]
        text = json.dumps([*parts, asdict(self.driver), asdict(self.executor)], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:FINGERPRINT_CHARACTERS]


_MEMORY = re.compile(r"(\d+)\s*(m|mb|g|gb|t|tb)", re.IGNORECASE)
_MIB = {"m": 1, "g": 1024, "t": 1024 * 1024}


def parse_memory(text: str, name: str = "memory") -> int:
    """Memory in MiB from Spark's notation ("512m", "2g").

    Args:
        text: as it was given.
        name: of the parameter, for the error.

    Raises:
        ValueError: it is something else.
    """
    matched = _MEMORY.fullmatch(str(text).strip())
    if matched is None or int(matched[1]) == 0:
        raise ValueError(f"{name} {text!r} is no memory size: give '512m' or '2g', say")
    return int(matched[1]) * _MIB[matched[2][0].lower()]
