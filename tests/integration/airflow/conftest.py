"""A real Airflow beside a real Spark: jobs of a few lines, and the connection between the two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.servers.smtp_server import SmtpServer
from tests.support.servers.statsd_server import Statsd

SCRIPT = dedent(
    """
    import sys
    from airflow_adaptive.job import AdaptiveJob

    directory, end = sys.argv[1:]


    def count(spark, parallelism):
        if end == "batch":
            lines = spark.read.text(f"{directory}/input")
            return lines.write.format("parquet").mode("overwrite").option("path", f"{directory}/output")
        lines = spark.readStream.format("text").load(f"{directory}/input")
        writer = lines.writeStream.format("parquet").option("path", f"{directory}/output")
        return writer.trigger(availableNow=True) if end == "bounded" else writer.trigger(processingTime="1 second")


    AdaptiveJob(count).run()
    """
)

STREAM = dedent(
    """
    from airflow_adaptive.job import AdaptiveJob


    def rows(spark, parallelism):
        rows = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        return rows.writeStream.format("noop").trigger(processingTime="1 second")


    AdaptiveJob(rows).run()
    """
)

ORDINARY_SCRIPT = dedent(
    """
    import sys
    from pyspark.sql import SparkSession

    directory = sys.argv[1]
    spark = SparkSession.builder.getOrCreate()
    if spark.conf.get("spark.hadoop.my.secret.key") != sys.argv[2]:
        raise ValueError("the secret property was lost")
    spark.read.text(f"{directory}/input").write.parquet(f"{directory}/output")
    """
)

SECRET = "hush"
"""Of a Spark property in the connection."""

MARK = "m4rked"
"""Is a part of all secrets that are searched for."""

SECRET_CONF = {
    "spark.hadoop.fs.s3a.secret.key": f"{MARK}-s3-key",
    "spark.hadoop.fs.azure.account.key.flights": f"{MARK}-azure-key",
    "spark.my.jdbc.password": f"{MARK}-jdbc-password",
    "spark.my.broker": f"amqp://me:{MARK}-broker@h1",
}
SECRET_ENV = {"DB_LOGIN": f"{MARK}-login"}

DAGS = dedent(
    """
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier
    from airflow.providers.standard.operators.empty import EmptyOperator
    import json
    from airflow.sdk import DAG, Asset, AssetWatcher, task
    from airflow_adaptive._airflow.internals import AsyncCallback
    from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
    from airflow_adaptive.operators import AdaptiveSparkOperator, SetResourceRequirementsOperator, StopAdaptiveJobOperator
    from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor
    from airflow_adaptive.sensors.spark_resources import SparkResourcesSensor
    from airflow_adaptive.triggers import AdaptiveJobEventTrigger

    FAR = window("far", (1, 2), dates=["2999-12-31"])
    CALENDAR = scheduled_policy(zone="UTC", windows=[FAR], default=1)
    ONCALL = {{"to": "oncall@example.com", "html_content": "see Airflow"}}
    SMALL = {{"driver_memory": "512m", "executor_memory": "512m", "resource_stabilization_timeout": "1 s"}}
    QUICK = SMALL | {{
        "scaling_interval_min": "2 s",
        "executing_stabilization_timeout": "1 s",
        "max_trigger_delay": "3 s",
        "stop_timeout": "8 s",
    }}

    def job(task_id, end="endless", **changes):
        return AdaptiveSparkOperator(
            task_id="job",
            job=task_id,
            application_args=["{directory}/" + task_id, end],
            job_directory="file://{directory}/jobs",
            **(QUICK | {{"application": "{directory}/script.py", "parallelism": (1, 2)}} | changes),
        )

    def fleet(items, **changes):
        AdaptiveSparkOperator.partial(
            task_id="job",
            job_directory="file://{directory}/jobs",
            **(QUICK | {{"application": "{directory}/script.py", "parallelism": 1}} | changes),
        ).expand_kwargs(items)

    def item(name, directory=None):
        return {{"job": name, "application_args": ["{directory}/" + (directory or name), "endless"]}}

    with DAG("bounded", schedule=None):
        SparkResourcesSensor(task_id="resources", parallelism=(1, 2), **SMALL) >> job("bounded", "bounded")

    for size in (10, 100):
        with DAG(f"short_{{size}}", schedule=None):
            SparkResourcesSensor.partial(task_id="wait", deferrable=True, **SMALL).expand_kwargs([{{"parallelism": 1}}] * size)

    with DAG("instant", schedule=None):
        fleet(
            [item(f"i{{index}}", "instant") for index in range(100)],
            parallelism=50,
            resource_wait_timeout="100 ms",
            resource_stabilization_timeout="0 s",
        )

    with DAG("endless", schedule=None):
        job(
            "endless",
            scaling_interval_min="10 s",
            slot_idle_timeout="2 s",
            on_rescale_callback=AsyncCallback(SmtpNotifier, kwargs=ONCALL | {{"subject": "{{{{ message }}}}"}}),
        )

    with DAG("cleared", schedule=None):
        job("cleared")

    with DAG("in_worker", schedule=None):
        job("in_worker", deferrable=False)

    with DAG("recycled", schedule=None):
        job("recycled", trigger_lifetime="10 s")

    with DAG("paused", schedule=None):
        job("paused", trigger_lifetime="10 s")

    with DAG("controlled", schedule=None):
        job("controlled")

    with DAG("watched", schedule=None):
        job("watched", max_parallelism=2, rescale_policy=CALENDAR)

    with DAG("resumed", schedule=None):
        job("resumed")

    with DAG("abandoned", schedule=None):
        job("abandoned")

    with DAG("hung", schedule=None):
        job("hung", parallelism=1, restart_strategy="none")

    with DAG("continues", schedule=None):
        job("continues", parallelism=1)

    with DAG("control", schedule=None):
        runs = AdaptiveJobSensor(task_id="runs", job="controlled")
        reset = SetResourceRequirementsOperator(task_id="reset", job="controlled", parallelism=None)
        runs >> reset >> StopAdaptiveJobOperator(task_id="stop", job="controlled")

    SUSPENSION = AdaptiveJobEventTrigger(job="controlled", events=["SUSPENDED"])
    with DAG("afterwards", schedule=[Asset("suspension", watchers=[AssetWatcher(name="job", trigger=SUSPENSION)])]):
        EmptyOperator(task_id="noticed")

    with DAG("fleet", schedule=None):
        fleet([item(name) for name in ("fleet_a", "fleet_b", "no id!")])

    with DAG("changing", schedule=None):

        @task
        def items():
            return [item(name, "changing") for name in json.load(open("{directory}/names.json"))]

        fleet(items(), application="{directory}/stream.py")

    with DAG("after_fleet", schedule=Asset("adaptive://fleet/fleet/job")):
        EmptyOperator(task_id="noticed")

    with DAG("drained", schedule=None):
        job("drained", "bounded", parallelism=1)

    with DAG("found_batch", schedule=None):
        job("found_batch", "batch", parallelism=1)

    with DAG("declared_batch", schedule=None):
        job(
            "declared_batch",
            "{secret}",
            application="{directory}/ordinary_script.py",
            job_type="batch",
            parallelism=1,
            env_vars={{"SPARK_LOCAL_IP": "127.0.0.1"}},
        )
    """
)


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a script, DAGs, and input for each job."""
    directory = tmp_path_factory.mktemp("playground")
    (directory / "dags").mkdir()
    (directory / "script.py").write_text(SCRIPT)
    (directory / "stream.py").write_text(STREAM)
    (directory / "ordinary_script.py").write_text(ORDINARY_SCRIPT)
    (directory / "dags" / "jobs.py").write_text(DAGS.format(directory=directory, secret=SECRET))
    for job in re.findall(r'DAG\("(\w+)"', DAGS):
        (directory / job / "input").mkdir(parents=True)
        (directory / job / "input" / "lines.txt").write_text("one\ntwo\nthree\n")
    return directory


@pytest.fixture(scope="session")
def spark_connection(spark_master: LocalCluster) -> dict[str, str]:
    """Environment that makes the embedded cluster Airflow's default Spark connection."""
    extra = {
        "ui-port": urlsplit(spark_master.ui_url).port,
        "rest-port": urlsplit(spark_master.rest_url).port,
        "conf": {"spark.hadoop.my.secret.key": SECRET},
    }
    connection = {"conn_type": "spark", "host": spark_master.master_url, "extra": extra}
    secretive = connection | {
        "password": f"{MARK}-bearer",
        "extra": extra | {"conf": SECRET_CONF, "secret-env": SECRET_ENV},
    }
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_SECRETIVE": json.dumps(secretive),
    }


@pytest.fixture(scope="session")
def mailbox() -> Iterator[SmtpServer]:
    """Where Airflow's mails go."""
    with SmtpServer() as mailbox:
        yield mailbox


@pytest.fixture(scope="session")
def statsd() -> Iterator[Statsd]:
    """Where Airflow's metrics go."""
    with Statsd() as statsd:
        yield statsd


@pytest.fixture(scope="session")
def airflow(
    playground: Path, spark_connection: dict[str, str], mailbox: SmtpServer, statsd: Statsd
) -> Iterator[AirflowUnderTest]:
    """One Airflow of four processes for all tests of a session."""
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"}
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": extra}
    env = spark_connection | {"AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp)} | statsd.config
    with AirflowUnderTest(playground / "airflow", playground / "dags", env=env) as airflow:
        yield airflow
