"""A job whose driver the product's client submits to a test cluster, and whose job directory is a folder of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_adaptive._core.ports import DriverSubmission
from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DocumentError,
    DriverPlan,
    DriverStatus,
    JournalDocument,
    decode_document,
    encode_document,
    journal_name,
)
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.staging import stage
from tests.support.kubernetes.images import SPARK
from tests.support.waiting import wait_until_async

TIMEOUT_S = 180.0

MEMORY_MB = 512

CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass
class DriverJob:
    """A job directory, and the drivers of the job.

    Attributes:
        job: id of the job.
        root: folder of this machine that every pod sees at the same path.
        api_url: URL of the API server for pods, because the test cluster has no DNS.
    """

    job: str
    root: Path
    api_url: str
    epoch: int = 1
    nonce: str = "n1"
    number: int = field(default=0)

    def __post_init__(self) -> None:
        for folder in (self.root, self.directory):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # The user of the containers is not the user of the tests.

    @property
    def directory(self) -> Path:
        return self.root / self.job

    async def submission(
        self, script: str, *, executors: int = 1, conf: Mapping[str, str] | None = None
    ) -> DriverSubmission:
        """Stage a script, and return the submission of its driver."""
        file = self.root / "script.py"
        file.write_text(script)
        code = await stage(FsspecJobDirectory(Storage.at(str(self.root)), self.job), file)
        return DriverSubmission(
            name=self.job,
            epoch=self.epoch,
            nonce=self.nonce,
            script=code.script,
            py_files=code.py_files,
            args=[str(self.root)],
            conf={**self._properties(), **(conf or {})},
            driver_memory_mb=MEMORY_MB,
            executors=executors,
            max_executors=3,
            executor_memory_mb=MEMORY_MB,
        )

    def _properties(self) -> dict[str, str]:
        return {
            **pod_properties(self.root, self.api_url),
            "spark.airflow.adaptive.job": self.job,
            "spark.airflow.adaptive.directory": self.directory.as_uri(),
            "spark.airflow.adaptive.epoch": str(self.epoch),
            "spark.airflow.adaptive.nonce": self.nonce,
        }

    def direct(self, action: Action, version: int, wanted: DriverPlan | None = None) -> None:
        """Create the next journal document, in one step."""
        self.number += 1
        directive = Directive(epoch=self.epoch, nonce=self.nonce, version=version, action=action, plan=wanted)
        document = JournalDocument(
            job=self.job, number=self.number, at="", owner="test", directive=directive, scheduler={}
        )
        path = self.directory / "journal" / journal_name(self.number)
        path.parent.mkdir(exist_ok=True)
        written = path.with_suffix(".written")
        written.write_bytes(encode_document(document))
        os.link(written, path)
        written.unlink()

    def status(self) -> DriverStatus | None:
        try:
            return decode_document(DriverStatus, (self.directory / "status.json").read_bytes())
        except (FileNotFoundError, DocumentError):
            return None

    async def wait_status(self, what: str, condition: Callable[[DriverStatus], bool]) -> DriverStatus:
        """Wait until the driver status is as wanted."""

        async def wanted() -> DriverStatus | None:
            status = self.status()
            return status if status is not None and condition(status) else None

        return await wait_until_async(wanted, TIMEOUT_S, what)


def pod_properties(root: Path, api_url: str, claim: str | None = None) -> dict[str, str]:
    """Return the Spark properties of small pods that see a folder of this machine, through a claim if one is given.

    The URL of the API server is for pods, because the test cluster has no DNS.
    """
    kind, option = (
        ("hostPath", {"path": str(root)}) if claim is None else ("persistentVolumeClaim", {"claimName": claim})
    )
    fields = {"mount.path": str(root), **{f"options.{name}": value for name, value in option.items()}}
    mounts = {
        f"spark.kubernetes.{role}.volumes.{kind}.jobs.{name}": value
        for role in ("driver", "executor")
        for name, value in fields.items()
    }
    requests = {f"spark.kubernetes.{role}.request.cores": "100m" for role in ("driver", "executor")}
    overheads = {f"spark.{role}.memoryOverhead": "200m" for role in ("driver", "executor")}
    return {
        **mounts,
        **requests,
        **overheads,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.container.image": SPARK,
        "spark.kubernetes.driver.master": api_url,
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
    }
