"""Marked secrets, a real job, and a search for the marks in every place that a process other than the driver can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.conftest import MARK, SECRET_CONF, SECRET_ENV
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run, no_driver_runs
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.servers.smtp_server import SmtpServer

JOB = "secretive"

SCRIPT = dedent(
    """
    import os
    import sys
    from hashlib import sha256
    from pathlib import Path
    from airflow_adaptive.job import AdaptiveJob

    directory, digest = sys.argv[1:]


    def count(spark, parallelism):
        conf = spark.sparkContext.getConf()
        secrets = [value for name, value in sorted(conf.getAll()) if sha256(name.encode()).hexdigest() in NAMES]
        secrets.append(os.environ["DB_LOGIN"])
        if sha256("".join(secrets).encode()).hexdigest() != digest:
            raise ValueError("the secrets did not arrive")

        def write(batch, number):
            if Path(directory, "fail").exists():
                raise RuntimeError(f"the database does not take {secrets}")

        lines = spark.readStream.format("text").load(f"{directory}/input")
        return lines.writeStream.foreachBatch(write).trigger(processingTime="1 second")


    AdaptiveJob(count).run()
    """
)

DAG = dedent(
    """
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    with DAG("{job}", schedule=None):
        AdaptiveSparkOperator(
            task_id="job",
            job="{job}",
            conn_id="spark_secretive",
            application="{directory}/{job}.py",
            application_args=["{directory}/{job}", "{digest}"],
            job_directory="file://{directory}/jobs",
            parallelism=(1, 1),
            driver_memory="512m",
            executor_memory="512m",
            resource_stabilization_timeout="1 s",
            restart_strategy="none",
            on_failure_callback=SmtpNotifier(
                to="oncall@example.com", subject="{{{{ ti.task_id }}}} failed: {{{{ exception }}}}", html_content="see Airflow"
            ),
        )
    """
)


@pytest.fixture
def run(airflow: AirflowUnderTest, spark_cluster: LocalCluster, playground: Path) -> Run:
    """A job whose secrets have arrived in its driver."""
    names = [sha256(name.encode()).hexdigest() for name in SECRET_CONF]
    secrets = [*(SECRET_CONF[name] for name in sorted(SECRET_CONF)), *SECRET_ENV.values()]
    digest = sha256("".join(secrets).encode()).hexdigest()
    (playground / JOB / "input").mkdir(parents=True)
    (playground / JOB / "input" / "lines.txt").write_text("one\n")
    (playground / f"{JOB}.py").write_text(f"NAMES = {names}\n{SCRIPT}")
    (playground / "dags" / f"{JOB}.py").write_text(DAG.format(job=JOB, directory=playground, digest=digest))
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run = Run(airflow, playground, JOB)
    run.until_executing(1)
    return run


@pytest.mark.long
def test_secrets_of_a_connection_are_seen_by_the_driver_alone(
    run: Run, airflow: AirflowUnderTest, spark_cluster: LocalCluster, playground: Path, mailbox: SmtpServer
) -> None:
    assert leaks(command_lines()) == []
    seen = list(pages(run, spark_cluster))
    assert leaks(seen) == []
    assert any(b"spark.my.jdbc.password" in content for url, content in seen if url.endswith("/environment"))
    assert leaks(files(spark_cluster.directory)) == []

    (playground / JOB / "fail").touch()
    (playground / JOB / "input" / "more.txt").write_text("two\n")
    run.until_task("failed")
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the driver to be gone")
    mail = f"job failed: job {JOB!r} failed: "
    wait_until(lambda: any(mail in subject for subject in mailbox.subjects), TIMEOUT_S, "a mail about the failure")
    assert leaks([("mail", subject.encode()) for subject in mailbox.subjects]) == []
    log = airflow.api.task_log(JOB, run.run_id, "job")
    assert "the database does not take" in log
    assert "***" in log
    assert leaks([("task log", log.encode()), ("xcoms", str(run.xcoms()).encode())]) == []
    assert leaks(files(airflow.home)) == []  # the database with triggers and the asset's state store, and all logs
    assert leaks(files(playground / "jobs")) == []
    assert [path for path in (playground / "jobs").rglob("*") if is_open(path)] == []


def leaks(places: Iterator[tuple[str, bytes]] | list[tuple[str, bytes]]) -> list[str]:
    """The places that show a secret; there must be some to look at."""
    found = [(name, MARK.encode() in content) for name, content in places]
    assert found
    return [name for name, leaks in found if leaks]


def command_lines() -> Iterator[tuple[str, bytes]]:
    """What everybody on the machine can list."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield str(process), (process / "cmdline").read_bytes()


def pages(run: Run, cluster: LocalCluster) -> Iterator[tuple[str, bytes]]:
    """What everybody can see who reaches Spark's web pages."""
    status = run.status()
    (worker,) = cluster.workers
    rest = f"{status.ui_url}/api/v1/applications/{status.application_id}"
    urls = [f"{cluster.ui_url}/json/", f"{worker.ui_url}/json/", f"{worker.ui_url}/", f"{cluster.ui_url}/"]
    urls += [f"{status.ui_url}/environment/", f"{rest}/environment", f"{status.ui_url}/executors/"]
    urls += [url for url in run.links().values() if url]
    for url in urls:
        answer = httpx.get(url, trust_env=False, follow_redirects=True, timeout=TIMEOUT_S).raise_for_status()
        yield url, answer.content + str(answer.url).encode()


def files(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Everything in a directory."""
    for path in directory.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                yield str(path), path.read_bytes()


def is_open(path: Path) -> bool:
    """Whether another user may change it."""
    return bool(path.stat().st_mode & stat.S_IWOTH)


def test_environment_of_a_process_is_its_owners_alone() -> None:
    """Secrets travel there, so it must not be readable for others: Linux's /proc/<pid>/environ is not."""
    assert stat.S_IMODE(os.stat("/proc/self/environ").st_mode) == stat.S_IRUSR
