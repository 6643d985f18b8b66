"""Runs the demo, once or as a playground, and returns the exit code, which is 0 only if the output of the job is correct."""

from __future__ import annotations

import signal
from contextlib import suppress
from datetime import date
from pathlib import Path

import httpx

from airflow_adaptive.local.airflow import USERNAME, LocalAirflowError
from airflow_adaptive.local.demo.clusters.cluster import DemoCluster, DemoEnvironmentError
from airflow_adaptive.local.demo.clusters.kubernetes_options import KubernetesOptions
from airflow_adaptive.local.demo.clusters.standalone import StandaloneDemo
from airflow_adaptive.local.demo.environment import DemoEnvironment
from airflow_adaptive.local.demo.job import Job, JobEndedError
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.demo.scenario import EXECUTING, POLL_INTERVAL_S, WAIT_TIMEOUT_S, Scenario
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

OK, FAILED, INTERRUPTED = 0, 1, 130

ERRORS = (
    LocalAirflowError,
    LocalClusterError,
    DemoEnvironmentError,
    JobEndedError,
    FileNotFoundError,
    TimeoutError,
    httpx.HTTPError,
)


def run(
    directory: Path,
    days_per_second: float,
    *,
    stay: bool = False,
    kubernetes: KubernetesOptions | None = None,
    bootstrap_servers: str | None = None,
) -> int:
    """Run the demo, and stop every process and remove every object that it created.

    Args:
        directory: working directory. The demo deletes its content first and leaves logs and output in it.
        days_per_second: days of flights that the generator publishes per second.
        stay: whether the job continues after the scenario until the user presses Ctrl-C.
        kubernetes: cluster on which the job runs; a Spark standalone cluster on this machine without it.
        bootstrap_servers: addresses of brokers of Kafka; without them, the job reads files.
    """
    reporter, has_pods = Reporter(), False
    try:
        cluster = _cluster(directory.resolve(), kubernetes, bootstrap_servers)
        with DemoEnvironment(cluster, directory, days_per_second, reporter) as environment:
            has_pods = kubernetes is not None
            correct = Scenario(environment, reporter).run()
            if stay:
                run_playground(environment, reporter)
            reporter.report("stopping all processes")
    except KeyboardInterrupt:
        reporter.report("interrupted: all processes are stopped")
        return INTERRUPTED
    except ERRORS as error:
        reporter.report(f"FAILED: {error}")
        if kubernetes is not None and has_pods:
            reporter.report(
                f"the pods had the image {kubernetes.image!r} (--image, make: IMAGE=...) and {len(kubernetes.conf)} Spark properties of --conf "
                "(make: CONF='NAME=VALUE ...'): see docs/reference/kubernetes.md for a cluster without DNS or with Pod Security"
            )
        reporter.report(f"the logs are in {directory.resolve()}")
        return FAILED
    reporter.report("done" if correct else "FAILED: the output of the job is wrong")
    return OK if correct else FAILED


def _cluster(directory: Path, kubernetes: KubernetesOptions | None, bootstrap_servers: str | None) -> DemoCluster:
    if bootstrap_servers is not None:
        from airflow_adaptive.local.demo.clusters.kafka import KafkaDemo  # noqa: PLC0415  needs the extra "kafka"

        return KafkaDemo(directory / "spark", bootstrap_servers)
    if kubernetes is None:
        return StandaloneDemo(directory / "spark")
    from airflow_adaptive.local.demo.clusters.kubernetes import KubernetesDemo  # noqa: PLC0415  needs the extra "kubernetes"

    return KubernetesDemo(kubernetes, directory)


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
