"""Addresses of Spark's web pages for a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard
from urllib.parse import urlsplit

from airflow_adaptive.runtime.observation.job_observation import JobObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """Addresses of Spark's web pages, None while unknown.

    Attributes:
        master: web UI of the master.
        driver: web UI of the driver, None after the end of the driver.
        executors: the driver's page of executors, with their logs.
        stdout: page of the standard output of the newest driver; remains after the end of the driver.
        stderr: page of the standard error of the newest driver; remains after the end of the driver.
    """

    master: str | None = None
    driver: str | None = None
    executors: str | None = None
    stdout: str | None = None
    stderr: str | None = None

    def updated(self, observation: JobObservation, submission_id: str | None) -> Urls:
        """Return the addresses after an observation.

        Args:
            observation: observation of the job.
            submission_id: identifies the newest driver, None without one.
        """
        driver = None if observation.status is None else observation.status.ui_url
        cluster = observation.cluster
        pages = None if cluster is None else cluster.log_pages.get(submission_id or "")
        return Urls(
            master=self.master if cluster is None else cluster.ui_url,
            driver=driver,
            executors=f"{driver}/executors/" if driver else None,
            stdout=self.stdout if pages is None else pages.stdout,
            stderr=self.stderr if pages is None else pages.stderr,
        )


def is_web_address(url: object) -> TypeGuard[str]:
    """Return whether a page may link to an address. A driver can report any text."""
    try:
        return isinstance(url, str) and urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False
