"""The triggerers are upgraded one after the other to a version with a newer document format, and then go back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import airflow_adaptive
from airflow_adaptive._engine.journal.journal import attempt_of
from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

PACKAGE = Path(airflow_adaptive.__file__).parent

FORMATS = "FORMATS = (1,)"
NEXT_FORMATS = "FORMATS = (1, 2)"

IMPORTED = """
with open({file!r}, "a") as file:
    import os
    file.write(f"{{os.getpid()}}\\n")
"""
"""Notes each process that imports the next version."""


class Triggerers:
    """Two triggerers, each with this version of the package or with the next one."""

    def __init__(self, job: AirflowJob, next_version: Path) -> None:
        self._job = job
        self._next_version = next_version
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *, upgraded: bool) -> None:
        """Start a triggerer, and wait until Airflow knows it."""
        known = self._ids()
        path = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = str(self._next_version if upgraded else PACKAGE.parent)
        try:
            process = self._job.command("triggerer", "--skip-serve-logs")
        finally:
            os.environ["PYTHONPATH"] = path
        self._job.wait_for("the triggerer", lambda: self._ids() - known)
        (number,) = self._ids() - known
        self._running[number] = process

    def replace(self, *, upgraded: bool) -> None:
        """Replace both triggerers, one after the other. The loop moves to the triggerers that run."""
        for number in [*self._running]:
            owner, ran_loop = self._job.owner(), number == self.of_loop()
            self.start(upgraded=upgraded)
            self._end(self._running.pop(number))
            if ran_loop:
                assert attempt_of(self._job.wait_loop(owner)) == attempt_of(owner)
            self._job.wait_for("the trigger in a triggerer", lambda: self.of_loop() in self._running)

    def of_loop(self) -> int | None:
        """Return the id of the triggerer that runs the loop of the job."""
        found = self._job.database("SELECT triggerer_id FROM trigger WHERE triggerer_id IS NOT NULL")
        return int(found[0][0]) if found else None

    def is_loop_upgraded(self) -> bool:
        """Return whether the triggerer that runs the loop has imported the next version."""
        number = self.of_loop()
        assert number is not None
        process = psutil.Process(self._running[number].pid)
        family = {str(member.pid) for member in (process, *process.children(recursive=True))}
        return not family.isdisjoint((self._next_version / "imported").read_text().split())

    def end(self) -> None:
        """End all triggerers."""
        for process in self._running.values():
            self._end(process)

    def _ids(self) -> set[int]:
        return {
            number
            for (number,) in self._job.database(
                "SELECT id FROM job WHERE job_type = 'TriggererJob' AND state = 'running'"
            )
        }

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        process.wait()


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """A folder with a copy of the package that reads and writes a newer format, too."""
    folder = tmp_path / "next"
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    documents = folder / PACKAGE.name / "job" / "protocol" / "documents.py"
    text = documents.read_text()
    assert text.count(FORMATS) == 1
    noted = folder / "imported"
    noted.touch()
    documents.write_text(text.replace(FORMATS, NEXT_FORMATS) + IMPORTED.format(file=str(noted)))
    return folder


@pytest.fixture
def triggerers(job: AirflowJob, next_version: Path) -> Iterator[Triggerers]:
    """Two triggerers of this version, in place of the triggerer of the session."""
    pair = Triggerers(job, next_version)
    pair.start(upgraded=False)
    pair.start(upgraded=False)
    job.airflow.kill(Component.TRIGGERER)
    yield pair
    job.airflow.restart(Component.TRIGGERER)
    pair.end()


def test_triggerers_that_are_upgraded_and_go_back(job: AirflowJob, record: Record, triggerers: Triggerers) -> None:
    job.begin(parallelism=(1, 2))
    rescale(job, to=2)
    job.fault()
    triggerers.replace(upgraded=True)
    assert triggerers.is_loop_upgraded()
    rescale(job, to=1)
    triggerers.replace(upgraded=False)
    assert not triggerers.is_loop_upgraded()
    rescale(job, to=2)
    job.recover()
    assert (job.epoch(), job.task_state()) == (1, "deferred")
    record(
        "Airflow's triggerers are upgraded", "to a newer document format, one after the other, and back", job.suspend()
    )


def rescale(job: AirflowJob, to: int) -> None:
    """Rescale the job. The loop and the driver stay."""
    job.require(to, to)
    job.wait_for(f"parallelism {to}", lambda: job.xcom("parallelism") == {"job": to} and job.is_in("Executing"))
