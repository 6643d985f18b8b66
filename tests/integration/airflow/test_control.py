"""REST and other DAGs control a job, on a real Airflow and a real Spark; what it shows while it runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from textwrap import dedent

import httpx
import psutil
import pytest

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive.local.airflow import Component
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Begin, Run, adaptive, begin, no_driver_runs  # noqa: F401  a fixture
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ACCEPTED, CONFLICT = 202, 409
JOB = "controlled"
JOBS = "/adaptive/api/v1/jobs"
API = f"{JOBS}/{JOB}"
HANG_S = 60.0
CHECKS = ("versions", "database", "triggerer", "job", "job directory", "driver", "connection", "cluster", "slots")
ASSET = f"adaptive://job/{JOB}"


def require(airflow: AirflowUnderTest, lower: int, upper: int) -> None:
    bounds = {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}
    airflow.api._request("PUT", f"{API}/resource-requirements", bounds)


def is_published(airflow: AirflowUnderTest, state: str, parallelism: int) -> bool:
    published = airflow.api._find(API)
    return (published["state"], published["parallelism"]) == (state, {"job": parallelism})


def test_job_is_shrunk_by_rest_and_suspended_by_a_dag_and_others_are_notified(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
) -> None:
    run = begin(JOB)
    wait_until(lambda: airflow.api.has_dag("control"), TIMEOUT_S, "the DAG that controls")
    airflow.api.unpause("afterwards")
    spark_cluster.add_worker(cores=1, memory_mb=1024)
    run.until_executing(2)
    wait_until(lambda: airflow.api._find(f"{API}/metrics?step=10")["points"], TIMEOUT_S, "the first metrics")
    require(airflow, 1, 1)
    run.until_executing(1)
    wait_until(lambda: is_published(airflow, "Executing", 1), TIMEOUT_S, "the smaller plan in the published state")
    position = "position/SUSPENDED"  # a new trigger starts after the newest event
    wait_until(lambda: airflow.api.asset_state(ASSET, position), TIMEOUT_S, "the position of the trigger")

    control = airflow.api.trigger("control")
    wait_until(lambda: airflow.api.run_state("control", control) == "success", TIMEOUT_S, "the end of the control")
    bounds = {"job": {"parallelism": {"lowerBound": 1, "upperBound": 2}}}
    assert airflow.api.xcom("control", control, "reset", "return_value") == bounds
    assert airflow.api.xcom("control", control, "stop", "return_value") == "SUSPENDED"
    run.until_task("success")
    made = airflow.api.asset_state(ASSET, "desired_state_of_tasks")
    assert (made["value"], made["by"], made["via"]) == ("suspended", f"control/stop/{control}", "task")
    handled = airflow.api.asset_state(ASSET, "handled_requests")  # The task reports the end of the job.
    assert (handled["requests"], handled["end"]["outcome"]) == ([made], "SUSPENDED")
    wait_until(lambda: "success" in airflow.api.run_states("afterwards"), 2 * TIMEOUT_S, "the notified DAG")

    summary = airflow.api.asset_state(ASSET, "summary")
    assert (summary["state"], summary["outcome"]) == ("Finished", "SUSPENDED")
    assert summary["requirements"] == {"job": {"lower": 1, "upper": 2}}
    assert from_json(airflow.api.asset_state(ASSET, "scheduler")).num_rescales == summary["rescales"]


def test_suspended_job_is_reset_by_a_command_and_resumed_and_canceled_by_rest(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
    playground: Path,
) -> None:
    run = begin("resumed")
    api, output = f"{JOBS}/resumed", playground / "resumed" / "output"
    wait_until(lambda: [*output.glob("*.parquet")], TIMEOUT_S, "the first rows")
    found = json.loads(adaptive(airflow, "doctor", "--job", "resumed", "-o", "json"))
    assert {check["name"]: check["result"] for check in found} == dict.fromkeys(CHECKS, "ok")
    assert "==> stderr of driver-" in adaptive(airflow, "logs", "resumed", "--lines", "5")
    airflow.api._request("POST", f"{api}/suspend", {})
    adaptive(airflow, "wait", "resumed", "--state", "SUSPENDED")
    run.until_task("success")
    adaptive(airflow, "reset", "resumed", "--from-beginning", "--yes")
    output.rename(output.with_name("earlier_output"))
    wait_until(lambda: airflow.api._client.post(f"{api}/resume", json={}).status_code == ACCEPTED, TIMEOUT_S, "its end")
    run.until_task("deferred")
    adaptive(airflow, "wait", "resumed", "--state", "Executing")
    wait_until(lambda: [*output.glob("*.parquet")], TIMEOUT_S, "the same rows again")
    airflow.api._request("POST", f"{api}/cancel", {})
    run.until_task("failed")
    wait_until(lambda: not spark_cluster.state()["activedrivers"], TIMEOUT_S, "the end of the driver")


@pytest.mark.parametrize("state", ["failed", "success"])
def test_driver_that_an_ended_task_leaves_is_displayed_and_canceled_by_rest(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
    playground: Path,
    state: str,
) -> None:
    run = begin("abandoned")
    api = f"{JOBS}/abandoned"
    wait_until(lambda: airflow.api._find(api)["state"] == "Executing", TIMEOUT_S, "the published state")
    airflow.kill(Component.TRIGGERER)
    run.end_task(state)
    wait_until(lambda: airflow.api._find(api)["abandoned"], TIMEOUT_S, "a job without a control loop")
    assert airflow.api._find(api)["state"] == "Executing"
    assert "(no control loop)" in adaptive(airflow, "jobs")
    assert airflow.api._client.post(f"{api}/suspend", json={}).json()["type"].endswith("no-loop")
    answer = airflow.api._client.post(f"{api}/cancel", json={})
    airflow.restart(Component.TRIGGERER)
    if has("TriggererCallback"):
        assert answer.status_code == ACCEPTED
    else:
        cancel_in_a_new_run(airflow, playground, "abandoned", answer)
    wait_until(lambda: no_driver_runs(spark_cluster), 2 * TIMEOUT_S, "the end of the driver")
    wait_until(lambda: airflow.api._find(api)["outcome"] == "CANCELED", TIMEOUT_S, "the published end")
    assert not airflow.api._find(api)["abandoned"]


def cancel_in_a_new_run(airflow: AirflowUnderTest, playground: Path, job: str, refused: httpx.Response) -> None:
    """Cancel a job without a control loop, as Airflow 3.1 requires: it refuses the first request."""
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (CONFLICT, "no-loop")
    assert "Run its DAG again and cancel it" in refused.json()["detail"]
    run = Run(airflow, playground, job)
    run.until("state", "Executing")

    def displayed_run() -> object:
        """The task instance is unknown until the new run publishes its first state."""
        return (airflow.api._find(f"{JOBS}/{job}")["task"] or {}).get("run_id")

    wait_until(lambda: displayed_run() == run.run_id, TIMEOUT_S, "the new run in the page")
    assert airflow.api._client.post(f"{JOBS}/{job}/cancel", json={}).status_code == ACCEPTED
    run.until_task("failed")


DELETED = dedent(
    """
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, Asset
    from airflow_adaptive.operators import AdaptiveSparkOperator

    with DAG("deleted", schedule=None):
        EmptyOperator(task_id="other", outlets=Asset("other"))
    """
)
"""Airflow deletes no reference to an Asset of a file without any Asset."""

DELETED_JOB = """
    AdaptiveSparkOperator(
        task_id="job",
        job="deleted",
        application="{directory}/stream.py",
        job_directory="file://{directory}/jobs",
        parallelism=1,
        driver_memory="512m",
        executor_memory="512m",
        resource_stabilization_timeout="1 s",
    )
"""


def test_driver_that_a_deleted_task_leaves_is_displayed_and_canceled_by_rest(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
    playground: Path,
) -> None:
    """About a minute after the deletion, Airflow empties the state store of the job."""
    dag_file, api, asset = playground / "dags" / "deleted.py", f"{JOBS}/deleted", "adaptive://job/deleted"
    with_job = DELETED + DELETED_JOB.format(directory=playground)
    dag_file.write_text(with_job)
    run = begin("deleted")
    wait_until(lambda: airflow.api.asset_state(asset, "summary"), TIMEOUT_S, "the published state")
    airflow.kill(Component.TRIGGERER)
    dag_file.write_text(DELETED)
    wait_until(lambda: not is_stored(airflow, asset), 3 * TIMEOUT_S, "an empty state store")
    run.until_task("removed")
    found = airflow.api._find(api)
    assert (found["state"], found["outcome"], found["abandoned"]) == ("Executing", None, True)
    assert found["task"]["run_id"] == run.run_id
    assert "(no control loop)" in adaptive(airflow, "jobs")
    assert airflow.api._client.post(f"{api}/suspend", json={}).json()["type"].endswith("no-loop")
    answer = airflow.api._client.post(f"{api}/cancel", json={})
    assert not no_driver_runs(spark_cluster)
    airflow.restart(Component.TRIGGERER)
    if not has("TriggererCallback"):
        dag_file.write_text(with_job)
        tasks = "/api/v2/dags/deleted/tasks"
        wait_until(lambda: len(airflow.api._find(tasks)["tasks"]) == 2, TIMEOUT_S, "the restored task")
        cancel_in_a_new_run(airflow, playground, "deleted", answer)
        wait_until(lambda: no_driver_runs(spark_cluster), 2 * TIMEOUT_S, "the end of the driver")
        return
    assert answer.status_code == ACCEPTED
    wait_until(lambda: no_driver_runs(spark_cluster), 2 * TIMEOUT_S, "the end of the driver")
    wait_until(lambda: airflow.api._find(api) is None, TIMEOUT_S, "a job that does not exist any more")
    assert "deleted" not in adaptive(airflow, "jobs")
    assert run.xcom("state") == "CANCELED"


def is_stored(airflow: AirflowUnderTest, asset: str) -> bool:
    try:
        return airflow.api.asset_state(asset, "summary") is not None
    except LookupError:
        return False


def test_job_that_ends_while_the_api_server_hangs_has_its_end_afterwards(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
) -> None:
    continuing, ending = begin("continues"), begin("hung")
    owner, driver = continuing.owner(), continuing.status().nonce
    with airflow.hanging(Component.API_SERVER):
        (python,) = [it for it in psutil.process_iter() if "/jobs/hung/code/" in " ".join(_command(it)[:2])]
        python.kill()
        hung_at = time.monotonic()
        wait_until(lambda: time.monotonic() >= hung_at + HANG_S, 2 * HANG_S, "the end of the hang")
    ending.until_task("failed")
    wait_until(lambda: airflow.api._find(f"{JOBS}/hung")["outcome"] == "FAILED", TIMEOUT_S, "the published end")
    assert (continuing.owner(), continuing.status().nonce) == (owner, driver)
    other = f"{JOBS}/continues"
    wait_until(lambda: not airflow.api._find(other)["stale"], TIMEOUT_S, "the state of the other job")
    assert airflow.api._find(other)["state"] == "Executing"
    airflow.api._request("POST", f"{other}/cancel", {})
    continuing.until_task("failed")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
