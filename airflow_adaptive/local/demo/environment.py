"""The environment of the demo: the cluster, Airflow, the generator, the working directory and the output of the job."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import pyarrow
import pyarrow.parquet

import airflow_adaptive
from airflow_adaptive.local.airflow import USERNAME, LocalAirflow
from airflow_adaptive.local.demo.cluster import DemoCluster, DemoEnvironmentError
from airflow_adaptive.local.demo.flights import CarrierHour
from airflow_adaptive.local.demo.job import DemoRun, Reporter
from airflow_adaptive.local.demo.replay import Replay
from airflow_adaptive.local.waiting import wait_until

PARSE_TIMEOUT_S = 300.0
"""Maximum time until Airflow has parsed the DAG."""


class DemoEnvironment:
    """A context manager that starts all processes and stops them again. The working directory stays.

    Attributes:
        cluster: cluster, without a slot at first.
        airflow: Airflow, whose default connections point at the cluster.
        generator: generator, which has published nothing at first.
        sink: output of the job.
    """

    def __init__(self, cluster: DemoCluster, directory: Path, reporter: Reporter) -> None:
        """Describe the environment.

        Args:
            cluster: cluster, which was not started.
            directory: working directory. Its content is deleted first.
            reporter: prints the addresses of the started processes.
        """
        self._directory = directory.resolve()
        self._flights = self._directory / "flights"
        self._reporter = reporter
        self._dags = example_dags(Path(airflow_adaptive.__file__).parent)
        self._closing = ExitStack()
        self.cluster = cluster
        self.sink = Sink(self._flights / "output")

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._start(closing)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def trigger_job(self) -> DemoRun:
        """Start a DAG run, which runs the job on the data of this environment."""
        dag, parameters = self.cluster.dag, self.cluster.parameters(self._flights)
        return DemoRun(self.airflow.api, dag, self.airflow.api.trigger(dag, parameters))

    def _start(self, closing: ExitStack) -> None:
        empty(self._directory)
        (self._flights / "input").mkdir(parents=True)
        closing.enter_context(self.cluster)
        self._reporter.report(f"the cluster runs without a slot: {self.cluster.description}")
        env = self.cluster.airflow_environment
        self.airflow = closing.enter_context(LocalAirflow(self._directory / "airflow", self._dags, env=env))
        wait_until(self._dag_is_parsed, PARSE_TIMEOUT_S, f"DAG {self.cluster.dag!r} in {self._dags}")
        self._reporter.report(
            f"Airflow runs: {self.airflow.url} (user {USERNAME}, password in {self.airflow.password_file})"
        )
        self.generator = Replay(self.cluster.generator_target(self._flights))
        closing.callback(self.generator.stop)

    def _dag_is_parsed(self) -> bool:
        errors = self.airflow.api.import_errors()
        if errors:
            raise DemoEnvironmentError("\n".join(errors))
        return self.airflow.api.has_dag(self.cluster.dag)


def empty(directory: Path) -> None:
    """Create a directory, or delete its content. The directory itself stays, because the nodes of a Kubernetes cluster may mount it."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()


def example_dags(package: Path) -> Path:
    """Return the folder of the example DAGs.

    A wheel contains the examples inside the package. In a clone, and in an editable installation of a clone, the
    examples are in the folder `dags` beside the package.

    Args:
        package: folder of the package `airflow_adaptive`.

    Raises:
        FileNotFoundError: neither folder exists.
    """
    for folder in (package / "example_dags", package.parent / "dags"):
        if (folder / "flight_departures.py").is_file():
            return folder
    raise FileNotFoundError(
        f"the example DAGs are neither in {package / 'example_dags'} nor in {package.parent / 'dags'}"
    )


LOG_VERSION = "v1"
COMPACT = ".compact"


class SinkLogError(ValueError):
    """The log of the sink has an unknown format."""


class Sink:
    """The output directory of the job.

    The class reads each data file only once, because data files never change.
    """

    def __init__(self, output: Path) -> None:
        """Describe the output directory, which may not exist yet."""
        self._output = output
        self._rows: dict[Path, list[CarrierHour]] = {}

    @property
    def last_batch(self) -> int:
        """ID of the newest committed batch, -1 before the first batch."""
        return max(_log_files(self._output), default=-1)

    @property
    def last_hour(self) -> datetime | None:
        """Latest hour in the committed rows, None without rows."""
        return max((row.hour for row in self.rows()), default=None)

    def rows(self) -> list[CarrierHour]:
        """Return all committed rows in ascending order. Duplicate rows stay duplicates.

        Raises:
            SinkLogError: a log file has an unknown version.
        """
        files = committed_files(self._output)
        self._rows |= {file: list(_read_rows(file)) for file in files if file not in self._rows}
        return sorted(row for file in files for row in self._rows[file])


def committed_files(output: Path) -> list[Path]:
    """Return the data files that `_spark_metadata` lists (Spark's `FileStreamSinkLog`).

    The log has a file `<batch>` for each batch. Instead of some of them, the log has a file `<batch>.compact`, which lists the
    files of all batches up to this one.

    Raises:
        SinkLogError: a log file has an unknown version.
    """
    logs = _log_files(output)
    compacted = [batch for batch, log in logs.items() if log.name.endswith(COMPACT)]
    first = max(compacted, default=0)
    return [file for batch in sorted(logs) if batch >= first for file in _entries(logs[batch])]


def _log_files(output: Path) -> dict[int, Path]:
    """Return the log files by batch ID. Names of checksums and unfinished files begin with a dot."""
    files = [file for file in (output / "_spark_metadata").glob("*") if file.name[0].isdigit()]
    return {int(file.name.removesuffix(COMPACT)): file for file in files}


def _entries(log: Path) -> Iterator[Path]:
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != LOG_VERSION:
        raise SinkLogError(f"{log} has version {version!r} instead of {LOG_VERSION!r}")
    return (Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines)


def _read_rows(file: Path) -> Iterator[CarrierHour]:
    table = pyarrow.parquet.read_table(file)
    column = table.schema.get_field_index("hour")
    hours = table["hour"].cast(pyarrow.timestamp("us", tz="UTC"))  # Spark writes UTC without the time zone.
    return (CarrierHour(**row) for row in table.set_column(column, "hour", hours).to_pylist())
