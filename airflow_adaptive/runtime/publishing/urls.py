"""Where people look further: addresses of Spark's web pages for a job."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_adaptive.runtime.observation.job_observation import JobObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """Addresses of Spark's web pages, None while unknown.

    Attributes:
        master: UI of the master.
        driver: UI of the driver, while it lives.
        executors: its page of executors, with their logs.
        stdout: what the newest driver's Python writes; stays when it has ended.
        stderr: what its JVM writes.
    """

    master: str | None = None
    driver: str | None = None
    executors: str | None = None
    stdout: str | None = None
    stderr: str | None = None

    def updated(self, observation: JobObservation, submission_id: str | None) -> Urls:
        """The addresses after an observation.

        Args:
            observation: of the job.
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
