"""The specification of a deployed job: graph, options, script, resources and locations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256

from airflow_adaptive._core.deployment import Declaration
from airflow_adaptive._core.ports import MIB, Request
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph

MIN_MEMORY_MB = 450
"""Least memory of a driver or an executor, MiB (`org.apache.spark.memory.UnifiedMemoryManager`)."""

APPLICATION_NAME = "spark.app.name"
"""Spark property with the name of the application."""

FINGERPRINT_CHARACTERS = 16
"""Length of a fingerprint: sufficient to distinguish the deployments of a job, too short to reveal their content."""

LINEAGE = ("spark.openlineage.parent", "spark.openlineage.rootParent", "spark.openlineage.transport.")
"""Beginnings of the names of Spark properties that only change where lineage is reported."""


class SizeError(ValueError):
    """The size of a driver or an executor is one that Spark refuses; `violations` are all its problems."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    cores: int = 1
    memory_mb: int = 1024
    requested: Request | None = None

    @property
    def request(self) -> Request:
        """Resources that the driver or the executor takes from the cluster."""
        return self.requested or Request(1000 * self.cores, self.memory_mb * MIB)

    def __post_init__(self) -> None:
        """Check the size. Raises `SizeError` for a size that Spark would refuse later."""
        name = type(self).__name__.removesuffix("Shape").lower()
        cores: object = self.cores  # a DAG author may pass anything
        violations = []
        if not isinstance(cores, int) or cores < 1:
            violations.append(f"{name}_cores {cores!r} must be 1 or more")
        if self.memory_mb < MIN_MEMORY_MB:
            text = f"{name}_memory of {self.memory_mb} MiB is below the {MIN_MEMORY_MB} MiB that Spark requires"
            violations.append(text)
        if violations:
            raise SizeError(violations)


class ExecutorShape(_Shape):
    """Size of one executor. A slot is one core of an executor.

    Attributes:
        cores: cores of the executor.
        memory_mb: heap of the executor, MiB.
        requested: resources that an executor takes from the cluster; None for its cores and its heap, as on a standalone cluster.
    """

    __slots__ = ()


class DriverShape(_Shape):
    """Size of the driver, with the attributes of `ExecutorShape`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpec:
    """What a driver is started with. Secrets are not part of it: the cluster client adds those of the connection.

    Attributes:
        script: URI of the staged PySpark script.
        py_files: URIs of the staged zip with the driver's runtime, which is first, and of the author's zips and modules.
        args: arguments of the script.
        conf: Spark properties of the user; they may contain secrets.
        env: environment of the driver process.
        driver: size of the driver.
        executor: size of an executor.
        driver_template: description of the driver beyond its size, for the cluster manager (Kubernetes: a pod template, in JSON); the
            runtime does not decode the text. None without one.
        executor_template: likewise, of an executor.
    """

    script: str
    py_files: tuple[str, ...]
    args: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver: DriverShape = DriverShape()
    executor: ExecutorShape = ExecutorShape()
    driver_template: str | None = None
    executor_template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec(DriverSpec):
    """A job as deployed.

    Attributes:
        graph: vertices of the job and their bounds.
        options: options of the scheduler.
        directory: URI of the job directory as Spark reads it.
        attempt: token of the attempt that deploys the job; the same attempt never starts a finished job again.
        priority: jobs with a higher priority take precedence when jobs compete for slots.
        rescale_policy: encoded rescale policy (`autoscaling.advisor`), which the runtime does not decode; None without one.
        declaration: what the task declares, for previews of deployments.
    """

    graph: JobGraph
    options: Options
    directory: str
    attempt: str = ""
    priority: int = 1
    rescale_policy: str | None = None
    declaration: Declaration = Declaration()

    @property
    def of_driver(self) -> DriverSpec:
        """What its drivers are started with."""
        return DriverSpec(**{it.name: getattr(self, it.name) for it in fields(DriverSpec)})

    def with_driver(self, spec: DriverSpec) -> JobSpec:
        """Return the job with drivers of another deployment."""
        return replace(self, **{it.name: getattr(spec, it.name) for it in fields(DriverSpec)})

    @property
    def application_name(self) -> str:
        """Name of the Spark application."""
        return self.conf.get(APPLICATION_NAME, self.graph.job)

    @property
    def deployment(self) -> str:
        """Fingerprint of everything that a driver is started with. A driver with another fingerprint runs an outdated job.

        The lineage of a job is not part of it, because each run of the task is another parent.
        """
        conf = {name: value for name, value in self.conf.items() if not name.startswith(LINEAGE)}
        parts = [self.script, self.py_files, self.args, conf, dict(self.env)]
        templates = [self.driver_template, self.executor_template]
        text = json.dumps([*parts, asdict(self.driver), asdict(self.executor), *templates], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:FINGERPRINT_CHARACTERS]


_MEMORY = re.compile(r"(\d+)\s*(?:([kmgtp])b?|b)", re.IGNORECASE)
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def parse_memory(text: str, name: str = "memory") -> int:
    """Return memory in MiB from Spark's notation ("512m", "2g"), rounded down as by Spark. Raises `ValueError` with the name of the parameter.

    A number without a unit is rejected, because Spark reads it as bytes on one cluster manager and as MiB on another.
    """
    matched = _MEMORY.fullmatch(str(text).strip())
    if matched is None or int(matched[1]) == 0:
        raise ValueError(f"{name} {text!r} is not a memory size: use, for example, '512m' or '2g'")
    return int(matched[1]) * _BYTES[(matched[2] or "").lower()] // MIB
