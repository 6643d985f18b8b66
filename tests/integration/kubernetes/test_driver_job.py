"""The driver of an adaptive job, from its submission to the end of all its objects, on real nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from airflow_adaptive._core.ports import LogPages, SubmissionState
from airflow_adaptive._core.protocol.documents import Action, DriverPlan, DriverState
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.dependencies import FOUND, SCRIPT, dependencies_in, ivy_properties
from tests.support.driver.driver_on_cluster import sink_rows
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import TIMEOUT_S, DriverJob, pod_properties
from tests.support.kubernetes.client.streaming_job import StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.waiting import wait_until_async

EXECUTORS = "spark-role=executor"

LOGS = "https://logs.example.com/{namespace}/{pod}"

COUNT = """
from airflow_adaptive.job import AdaptiveJob

def count(spark, parallelism):
    print("the query is built", flush=True)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    counts = rate.groupBy((rate.value % 5).alias("key")).count()
    return counts.writeStream.outputMode("update").format("console").trigger(processingTime="1 second")

AdaptiveJob(count).run()
"""


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        yield created


@pytest.fixture
def job(kubernetes_cluster: KubernetesCluster, tmp_path: Path) -> DriverJob:
    return DriverJob("Team_A.departures", tmp_path / "jobs", kubernetes_cluster.control_plane.url)


def plan(executors: int) -> DriverPlan:
    return DriverPlan(
        parallelism={"count": executors}, executors=executors, state_partitions={"count": 4}, query_version=1
    )


async def wait_for_state(client: Client, submission_id: str, state: SubmissionState) -> None:
    async def reached() -> bool:
        status = await client.status(submission_id)
        assert status.state is state or not status.state.over, (status, await client.driver_log(submission_id))
        return status.state is state

    await wait_until_async(reached, TIMEOUT_S, f"{state} of {submission_id}")


async def check_log_pages(client: Client, team: Namespace, submission_id: str) -> None:
    """Check the links to the log collector: of the driver in the snapshot, and of the executor in the Spark UI."""
    pod = submission_id.partition("@")[0]
    page = f"https://logs.example.com/{team.name}/{pod}"
    assert (await client.snapshot()).log_pages == {submission_id: LogPages(stdout=page, stderr=page)}
    address = team.api.get(team.path("pods", pod))["status"]["podIP"]
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:

        async def has_link() -> bool:
            executors = (await http.get(f"http://{address}:4040/api/v1/applications/{pod}/executors")).json()
            return {"log": f"{page}-exec-1"} in [executor["executorLogs"] for executor in executors]

        await wait_until_async(has_link, TIMEOUT_S, "the link to the log of the executor")


@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_a_driver_runs_scales_and_leaves_nothing(
    kubernetes_cluster: KubernetesCluster, team: Namespace, job: DriverJob
):
    async with cluster_client(kubernetes_cluster.control_plane, team.name, log_url=LOGS) as client:
        job.direct(Action.RUN, 1, plan(1))
        submission = await job.submission(COUNT, executors=1, conf={"spark.ui.enabled": "true"})
        submission_id = await client.submit(submission)
        await wait_for_state(client, submission_id, SubmissionState.RUNNING)
        started = await job.wait_status("the first plan", lambda now: now.version == 1)
        assert (started.state, started.submission_id) == (DriverState.RUNNING, submission_id)
        assert started.application_id == submission_id.partition("@")[0]
        assert len(team.pods(EXECUTORS)) == 1
        await check_log_pages(client, team, submission_id)
        job.direct(Action.RUN, 2, plan(3))
        await job.wait_status("three executors", lambda now: now.version == 2)
        assert len(team.pods(EXECUTORS)) == 3
        job.direct(Action.RUN, 3, plan(1))
        await job.wait_status("one executor", lambda now: now.version == 3)
        await asyncio.to_thread(wait_until, lambda: len(team.pods(EXECUTORS)) == 1, TIMEOUT_S, "end of executors")
        assert "the query is built" in (await client.driver_log(submission_id)).stdout
        assert await client.submit(submission) == submission_id
        await client.kill(submission_id)
        await wait_for_state(client, submission_id, SubmissionState.KILLED)
        await client.clean_up(job.job)
        account = ["Role spark", "RoleBinding spark", "ServiceAccount spark"]
        await asyncio.to_thread(wait_until, lambda: team.remaining_objects() == account, 60, "end of all objects")


TEXTS = ["pa$$word", "$$(POD_NAME)", "$(POD_NAME) $(HOME)", "${HOME}", "^a$|b$", "$", 'it\'s "quoted"']

ECHO = """
import json, os, sys
from pyspark.sql import SparkSession

def seen(_):
    options = os.popen("cat /proc/[0-9]*/cmdline | tr '\\\\0' '\\\\n' | grep '^-Dtext='").read()
    return json.dumps([os.environ["TEXT"], os.environ["PLAIN"], options])

session = SparkSession.builder.getOrCreate()
executor = json.loads(session.sparkContext.parallelize([0], 1).map(seen).first())
print("SEEN " + json.dumps({"args": sys.argv[2:], "env": os.environ["TEXT"], "executor": executor}), flush=True)
"""


@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_arguments_and_variables_arrive_byte_for_byte(
    kubernetes_cluster: KubernetesCluster, team: Namespace, job: DriverJob
):
    text = " ".join(TEXTS)
    conf = {
        "spark.executorEnv.TEXT": text,
        "spark.executorEnv.PLAIN": "plain",
        "spark.executor.extraJavaOptions": "-Dtext=$$(POD_NAME)$",
    }
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        submission = await job.submission(ECHO, conf=conf)
        submitted = await client.submit(replace(submission, args=[*submission.args, *TEXTS], env={"TEXT": text}))
        await wait_for_state(client, submitted, SubmissionState.FINISHED)
        [seen] = [
            line.removeprefix("SEEN ")
            for line in (await client.driver_log(submitted)).stdout.splitlines()
            if line.startswith("SEEN ")
        ]
        await client.clean_up(job.job)
    expected = {"args": TEXTS, "env": text, "executor": [text, "plain", "-Dtext=$$(POD_NAME)$\n"]}
    assert json.loads(seen) == expected


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_the_driver_and_its_executors_have_what_the_script_needs(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
):
    """The code is too large for the ConfigMap of the driver."""
    root = tmp_path / "team"
    root.mkdir()
    script = tmp_path / "departures.py"
    script.write_text(SCRIPT)
    conf = {**pod_properties(root, kubernetes_cluster.control_plane.url), **ivy_properties(root)}
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        job = StreamingJob(root, conf, client, script=script, dependencies=dependencies_in(tmp_path))
        async with job.running() as loop:
            job.feed(1)
            await job.wait_for_state(loop, "Executing")
            committed = root / "out" / "_spark_metadata" / "0"
            await asyncio.to_thread(wait_until, committed.exists, TIMEOUT_S, "the first batch")
            pod = ((loop.state.driver and loop.state.driver.submission_id) or "").partition("@")[0]
            assert not team.api.get(team.path("configmaps", pod)).get("binaryData")
            await job.suspend(loop)
    assert {(row["driver"], row["executor"]) for row in sink_rows(root / "out")} == {FOUND}
