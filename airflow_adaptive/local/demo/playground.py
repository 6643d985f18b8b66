"""The playground: after the scenario, Airflow, the cluster and the job stay running, and users can try the page of the job."""

from __future__ import annotations

import signal
from contextlib import suppress
from datetime import date

from airflow_adaptive.local.airflow import USERNAME
from airflow_adaptive.local.demo.environment import DemoEnvironment
from airflow_adaptive.local.demo.job import Job
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.demo.scenario import EXECUTING, POLL_INTERVAL_S, WAIT_TIMEOUT_S
from airflow_adaptive.local.waiting import wait_until

DAYS_PER_SECOND = 1.0
"""The generator writes about 5 MB of flights per minute at this speed."""


def run_playground(environment: DemoEnvironment, reporter: Reporter) -> None:
    """Resume the job, print the addresses, and return when the user presses Ctrl-C.

    Raises:
        JobEndedError: the job ended instead of running.
        TimeoutError: the job does not run in time.
    """
    with suppress(KeyboardInterrupt):
        reporter.heading("A new DAG run resumes the job, and the cluster gets two more slots")
        environment.cluster.add_two_slots()
        environment.generator.release(date.max, DAYS_PER_SECOND)
        _wait_until_executing(environment.trigger_job())
        _print_addresses(environment)
        while True:
            signal.pause()


def _wait_until_executing(job: Job) -> None:
    def poll() -> bool:
        job.require_running()
        return job.state == EXECUTING

    wait_until(poll, WAIT_TIMEOUT_S, "the resumed job", POLL_INTERVAL_S)


def _print_addresses(environment: DemoEnvironment) -> None:
    airflow = environment.airflow
    print(
        f"""
The job runs and reads new flights (about 5 MB per minute).

  Airflow       {airflow.url}
                Log in as {USERNAME}. The password is in {airflow.password_file}.
  The job       {environment.job_url}
                The same page is in Airflow under Browse, Adaptive jobs.
  The cluster   {environment.cluster.description}

Change the bounds of the job between 1 and 3, or suspend and resume the job, on the job's page.
Press Ctrl-C to stop all processes.
""",
        flush=True,
    )
