"""The client of a namespace, when requests are repeated, refused, lost or late."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._clusters.kubernetes.names import DriverIdentity, job_name
from airflow_adaptive._core.ports import (
    ClusterRefusedError,
    ClusterUnreachableError,
    DriverLog,
    NotSubmittedError,
    SubmissionRefusedError,
    SubmissionState,
)
from airflow_adaptive._core.protocol.conf import STANDBY_EXECUTORS
from airflow_adaptive._engine.clock import SystemClock
from tests.support.kubernetes.client.connected import client_of, submission
from tests.support.kubernetes.client.fake_api import FakeApi, failure

ROOT = "/api/v1/namespaces/team-a"
POD = DriverIdentity("departures", 1, "n").pod

pytestmark = pytest.mark.asyncio


def refuse(server: FakeApi, request: str, response: web.Response | None) -> None:
    """Answer one kind of request with a response; None for the usual responses again."""
    server.answer = lambda received: response if f"{received.method} {received.path}" == request else None


def created(server: FakeApi) -> list[str]:
    return [path.removeprefix(f"{ROOT}/") for path in server.objects]


def end(server: FakeApi, pod: str, code: int = 1) -> None:
    state = {"terminated": {"exitCode": code}}
    statuses = [{"name": "spark-kubernetes-driver", "state": state}]
    server.objects[f"{ROOT}/pods/{pod}"]["status"] = {"phase": "Failed", "containerStatuses": statuses}


async def test_a_submission_creates_the_pod_first(server: FakeApi) -> None:
    async with client_of(server) as client:
        assert await client.submit(submission()) == f"{POD}@uid-1"
    assert created(server) == [f"pods/{POD}", f"configmaps/{POD}", f"secrets/{POD}"]


async def test_the_code_is_in_the_config_map(server: FakeApi) -> None:
    async def read_code(_most_bytes: int) -> dict[str, bytes]:
        return {"/jobs/run.py": b"print()"}

    async with client_of(server) as client:
        await client.submit(replace(submission(), read_code=read_code))
    assert server.objects[f"{ROOT}/configmaps/{POD}"]["binaryData"] == {"code-0": "cHJpbnQoKQ=="}
    container = server.objects[f"{ROOT}/pods/{POD}"]["spec"]["containers"][0]
    assert container["args"][-1] == "file:///etc/airflow-adaptive/code/run.py"


async def test_commands_for_the_logs_and_the_spark_ui_are_logged(
    server: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """A user cannot open the address of a pod in a browser, and the pod has the only mapped name of a job."""
    with caplog.at_level("INFO"):
        async with client_of(server) as client:
            await client.submit(submission(name="Departures of 2026"))
    pod = DriverIdentity("Departures of 2026", 1, "n").pod
    label = f"airflow-adaptive/job={job_name('Departures of 2026')}"
    assert (
        f"The id of job Departures of 2026 is not a short DNS label. Its objects have the label {label}"
        in caplog.messages
    )
    assert f"Job Departures of 2026 is pod {pod}. Its logs: kubectl --namespace team-a logs {pod}" in caplog.messages
    executors = f"--selector spark-app-selector={pod},spark-role=executor --prefix"
    assert f"The logs of its executors: kubectl --namespace team-a logs {executors}" in caplog.messages
    assert (
        f"Its Spark UI on http://localhost:4040: kubectl --namespace team-a port-forward {pod} 4040" in caplog.messages
    )


async def test_a_repeated_submission_is_the_same_driver(server: FakeApi) -> None:
    async with client_of(server) as client:
        first = await client.submit(submission())
        assert await client.submit(submission()) == first
    assert len(server.objects) == 3


@pytest.mark.parametrize("missing", ["configmaps", "secrets"])
async def test_a_repeated_submission_creates_what_is_missing(server: FakeApi, missing: str) -> None:
    async with client_of(server) as client:
        refuse(server, f"POST {ROOT}/{missing}", failure(500, "etcdserver: timeout"))
        with pytest.raises(ClusterUnreachableError, match=f"driver {POD} is not complete"):
            await client.submit(submission())
        assert f"{missing}/{POD}" not in created(server)
        refuse(server, "", None)
        assert await client.submit(submission()) == f"{POD}@uid-1"
    assert set(created(server)) == {f"pods/{POD}", f"configmaps/{POD}", f"secrets/{POD}"}


@pytest.mark.parametrize(("status", "message"), [(403, "exceeded quota: team"), (429, "too many requests")])
@pytest.mark.parametrize("part", ["configmaps", "secrets"])
async def test_part_that_cannot_be_created_removes_the_pod_and_remains_of_earlier_drivers(
    server: FakeApi, part: str, status: int, message: str
) -> None:
    async with client_of(server) as client:
        await client.submit(submission())
        end(server, POD)
        refuse(server, f"POST {ROOT}/{part}", failure(status, message))
        with pytest.raises(NotSubmittedError, match="did not create a part of driver"):
            await client.submit(submission(epoch=2))
        assert [name for name in created(server) if name.startswith("pods/")] == []
        refuse(server, "", None)
        await client.submit(submission(epoch=3))


async def test_a_running_driver_survives_a_repeated_submission_that_is_refused_for_now(server: FakeApi) -> None:
    async with client_of(server) as client:
        await client.submit(submission())
        del server.objects[f"{ROOT}/secrets/{POD}"]
        refuse(server, f"POST {ROOT}/secrets", failure(429, "too many requests"))
        with pytest.raises(ClusterUnreachableError, match=f"driver {POD} is not complete"):
            await client.submit(submission())
    assert f"pods/{POD}" in created(server)


async def test_a_refused_part_removes_the_pod(server: FakeApi) -> None:
    async with client_of(server) as client:
        refuse(server, f"POST {ROOT}/secrets", failure(403, 'cannot create resource "secrets"', "Forbidden"))
        with pytest.raises(SubmissionRefusedError, match='cannot create resource "secrets"'):
            await client.submit(submission())
    assert f"pods/{POD}" not in created(server)


@pytest.mark.parametrize(
    ("annotations", "owner"),
    [
        (
            {"airflow-adaptive/job": "departures", "airflow-adaptive/nonce": "m"},
            "job 'departures' with another journal",
        ),
        ({"airflow-adaptive/job": "other", "airflow-adaptive/nonce": "n"}, "job 'other' with another journal"),
        ({}, "no adaptive job"),
    ],
)
async def test_a_pod_of_others_is_not_taken(server: FakeApi, annotations: dict[str, str], owner: str) -> None:
    labels = {"airflow-adaptive/epoch": "1"}
    server.put(f"{ROOT}/pods", {"metadata": {"name": POD, "annotations": annotations, "labels": labels}})
    async with client_of(server) as client:
        with pytest.raises(SubmissionRefusedError, match=owner):
            await client.submit(submission())


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (failure(403, "exceeded quota: team", "Forbidden"), NotSubmittedError, "exceeded quota: team"),
        (failure(400, 'admission webhook "x" denied', "BadRequest"), SubmissionRefusedError, "denied"),
        (failure(422, "Invalid value", "Invalid"), SubmissionRefusedError, "Invalid value"),
        (failure(404, 'namespaces "team-a" not found', "NotFound"), SubmissionRefusedError, "team-a"),
        (failure(409, "the object has been modified", "Conflict"), NotSubmittedError, "modified"),
        (failure(500, 'failed calling webhook "x": connection refused'), NotSubmittedError, "cannot admit .* refused"),
        (failure(500, 'admission webhook "x" denied the request: no database'), NotSubmittedError, "no database"),
        (failure(429, "too many requests"), NotSubmittedError, "too many requests"),
        (failure(504, "timeout", "Timeout"), ClusterUnreachableError, "may have created"),
    ],
)
async def test_each_failure_of_a_submission(
    server: FakeApi, response: web.Response, error: type[Exception], message: str
) -> None:
    async with client_of(server) as client:
        refuse(server, f"POST {ROOT}/pods", response)
        with pytest.raises(error, match=message) as caught:
            await client.submit(submission())
    assert type(caught.value) is error
    assert created(server) == []


@pytest.mark.parametrize("failed_reads", [0, 1])
async def test_a_lost_response_is_not_the_end_of_a_submission(server: FakeApi, failed_reads: int) -> None:
    """The API server creates the pod, and its response is lost, and perhaps also the response to the request that reads the pod."""
    reads: list[str] = []

    def loses(request: web.Request) -> web.Response | None:
        if request.path == f"{ROOT}/pods/{POD}" and len(reads) < failed_reads:
            reads.append(request.method)
            return failure(500, "connection reset")
        if f"{request.method} {request.path}" != f"POST {ROOT}/pods" or f"{ROOT}/pods/{POD}" in server.objects:
            return None
        annotations = {"airflow-adaptive/job": "departures", "airflow-adaptive/nonce": "n"}
        labels = {"airflow-adaptive/epoch": "1", "spark-role": "driver"}
        server.put(f"{ROOT}/pods", {"metadata": {"name": POD, "annotations": annotations, "labels": labels}})
        return failure(500, "connection reset")

    async with client_of(server) as client:
        server.answer = loses
        for _ in range(failed_reads):
            with pytest.raises(ClusterUnreachableError, match="may have created"):
                await client.submit(submission())
        assert await client.submit(submission()) == f"{POD}@uid-1"
    assert set(created(server)) == {f"pods/{POD}", f"configmaps/{POD}", f"secrets/{POD}"}


async def test_the_next_epoch_deletes_the_pods_of_earlier_epochs(server: FakeApi) -> None:
    async with client_of(server) as client:
        await client.submit(submission(1))
        end(server, POD)
        await client.submit(submission(2))
        assert f"DELETE {ROOT}/pods/{POD}" not in server.requests[: server.requests.index(f"POST {ROOT}/pods") + 1]
        await client.submit(submission(3))
    assert [path for path in created(server) if path.startswith("pods/")] == [
        f"pods/{DriverIdentity('departures', 3, 'n').pod}"
    ]


async def test_a_standby_leaves_the_driver_that_runs(server: FakeApi) -> None:
    async with client_of(server) as client:
        await client.submit(submission(1))
        standby = submission(2)
        await client.submit(replace(standby, conf={**standby.conf, STANDBY_EXECUTORS: "0"}, executors=0))
    assert [request for request in server.requests if request.startswith("DELETE")] == []


@pytest.mark.parametrize("is_new_process", [False, True])
async def test_drivers_are_killed_by_the_epochs_of_their_journal(server: FakeApi, is_new_process: bool) -> None:
    async with client_of(server) as first, client_of(server) as second:
        for epoch, nonce in ((1, "n"), (2, "n"), (3, "n"), (4, "n"), (2, "other")):
            given = submission(epoch, nonce)
            await first.submit(replace(given, conf={**given.conf, STANDBY_EXECUTORS: "0"}, executors=0))
        end(server, DriverIdentity("departures", 3, "n").pod)
        client = second if is_new_process else first
        await client.kill_epochs("departures", "n", {2, 3, 5})
        await client.kill_epochs("departures", "n", {2, 3, 5})
        await client.kill_epochs("another job", "n", {1, 4})
        deleted = [DriverIdentity("departures", 2, "n").pod]
        assert [it for it in server.requests if it.startswith("DELETE")] == [
            f"DELETE {ROOT}/pods/{it}" for it in deleted
        ]
        await client.clean_up("departures")
    assert [it for it in created(server) if it.startswith("pods/")] == [
        f"pods/{DriverIdentity('departures', 2, 'other').pod}"
    ]


async def test_a_partial_driver_does_not_keep_resources_from_the_next_epoch(server: FakeApi) -> None:
    async with client_of(server) as client:
        await client.submit(submission(1))
        await client.submit(submission(2))
    deleted = server.requests.index(f"DELETE {ROOT}/pods/{POD}")
    last_created = max(index for index, request in enumerate(server.requests) if request == f"POST {ROOT}/pods")
    assert deleted < last_created


async def test_the_drivers_of_another_journal_stay(server: FakeApi) -> None:
    async with client_of(server) as other, client_of(server) as client:
        await other.submit(submission(1, "other"))
        await client.submit(submission(2))
        await client.clean_up("departures")
    assert [path for path in created(server) if path.startswith("pods/")] == [
        f"pods/{DriverIdentity('departures', 1, 'other').pod}"
    ]


async def test_ended_drivers_of_each_journal_are_cleaned_up(server: FakeApi) -> None:
    async with client_of(server) as other, client_of(server) as client:
        await other.submit(submission(1, "other"))
        end(server, DriverIdentity("departures", 1, "other").pod)
        await client.clean_up("departures")
    assert [path for path in created(server) if path.startswith("pods/")] == []


async def test_clean_up_logs_the_last_output_of_the_newest_driver_that_ended_normally(
    server: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    output = "the last output, token=abcdef0123 t0ps3cret\n26/11/23 06:46:07 INFO SparkContext: stopped\n"
    server.answer = lambda request: web.Response(text=output) if request.path.endswith("/log") else None
    with caplog.at_level("INFO"):
        async with client_of(server) as client:
            for epoch, nonce in ((9, "m"), (10, "n")):
                await client.submit(submission(epoch, nonce))
                end(server, DriverIdentity("departures", epoch, nonce).pod, code=0)
            await client.snapshot()
            await client.clean_up("departures")
    newest = DriverIdentity("departures", 10, "n").pod
    assert [message for message in caplog.messages if " | " in message] == [
        f"{newest} stdout | the last output, token=*** ***",
        f"{newest} stderr | 26/11/23 06:46:07 INFO SparkContext: stopped",
    ]


@pytest.mark.parametrize("state", ["running", "failed", "log is gone"])
async def test_clean_up_logs_no_other_output(server: FakeApi, caplog: pytest.LogCaptureFixture, state: str) -> None:
    """The log of a driver that failed is a part of its diagnosis."""
    answer = failure(503, "down") if state == "log is gone" else web.Response(text="output")
    server.answer = lambda request: answer if request.path.endswith("/log") else None
    with caplog.at_level("INFO"):
        async with client_of(server) as client:
            await client.submit(submission())
            if state != "running":
                end(server, POD, code=1 if state == "failed" else 0)
            await client.snapshot()
            await client.clean_up("departures")
    assert "output" not in caplog.text
    assert created(server) == [f"configmaps/{POD}", f"secrets/{POD}"]  # The garbage collector deletes them.


async def test_a_cluster_is_checked_before_the_first_driver(server: FakeApi) -> None:
    server.answer = lambda request: failure(401, "Unauthorized", "Unauthorized")
    async with client_of(server) as client:
        with pytest.raises(ClusterRefusedError, match="refuses the credentials"):
            await client.check()


async def test_a_cluster_without_a_bound_accepts_no_driver(server: FakeApi) -> None:
    def answer(request: web.Request) -> web.Response | None:
        if request.path.startswith("/apis/"):
            return web.json_response({"status": {"allowed": True}})
        return failure(403, "no", "Forbidden") if request.path == "/api/v1/nodes" else None

    server.answer = answer
    client = KubernetesCluster(KubernetesAddress(server="https://api", namespace="team-a"), server, SystemClock())
    with pytest.raises(ClusterRefusedError, match="or set max-cores and max-memory"):
        await client.check()
    await client.close()


async def test_status_is_unknown_without_a_pod(server: FakeApi) -> None:
    async with client_of(server) as client:
        for unknown in (f"{POD}@uid-9", "driver-20130101000000-0001"):
            assert (await client.status(unknown)).state is SubmissionState.UNKNOWN
            await client.kill(unknown)
            assert await client.driver_log(unknown) == DriverLog()


async def test_a_kill_deletes_the_pod_of_this_driver_only(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        await client.kill(f"{POD}@uid-of-another-pod")
        assert f"pods/{POD}" in created(server)
        await client.kill(submitted)
        await client.kill(submitted)
    assert f"pods/{POD}" not in created(server)


async def test_a_kill_begins_the_watch_that_receives_the_last_object(server: FakeApi) -> None:
    async with client_of(server) as client:
        await client.kill(f"{POD}@uid-1")
    assert server.requests[0] == f"GET {ROOT}/pods"
    assert f"DELETE {ROOT}/pods/{POD}" in server.requests


async def test_a_kill_keeps_the_log_of_a_driver_that_has_ended(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        end(server, POD)
        await client.snapshot()
        await client.kill(submitted)
        assert f"pods/{POD}" in created(server)


@pytest.mark.parametrize(("is_killed", "state"), [(True, SubmissionState.KILLED), (False, SubmissionState.FAILED)])
async def test_exit_code_of_a_signal_is_a_failure_unless_the_client_killed_the_driver(
    server: FakeApi, is_killed: bool, state: SubmissionState
) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        await client.snapshot()
        last = server.objects[f"{ROOT}/pods/{POD}"]
        end(server, POD, code=143)
        if is_killed:
            await client.kill(submitted)
        server.events.put_nowait({"type": "DELETED", "object": last})
        while not (await client.status(submitted)).state.over:  # noqa: ASYNC110  the client has no event
            await asyncio.sleep(0.005)
        assert (await client.status(submitted)).state is state


async def test_the_command_for_the_log_of_a_driver_is_known_while_its_pod_exists(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        last = server.objects[f"{ROOT}/pods/{POD}"]
        assert (await client.status(submitted)).log_command == f"kubectl --namespace team-a logs {POD}"
        server.events.put_nowait({"type": "DELETED", "object": last})
        while (await client.status(submitted)).log_command:  # noqa: ASYNC110  the client has no event
            await asyncio.sleep(0.005)
        assert (await client.status(submitted)).log_command == ""


async def test_a_log_is_read_without_secrets(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        response = web.Response(text="token t0ps3cret\nRuntimeError: no flights today\n")
        refuse(server, f"GET {ROOT}/pods/{POD}/log", response)
        found = await client.driver_log(submitted)
    assert found == DriverLog(stdout="token ***\nRuntimeError: no flights today\n")


async def test_a_driver_that_has_not_started_has_no_log(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        refuse(server, f"GET {ROOT}/pods/{POD}/log", failure(400, "container is waiting to start", "BadRequest"))
        assert await client.driver_log(submitted) == DriverLog()


async def test_the_log_of_an_init_container_that_failed_is_the_log_of_the_driver(server: FakeApi) -> None:
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        failed = {"name": "wait-for-db", "state": {"terminated": {"exitCode": 3}}}
        server.objects[f"{ROOT}/pods/{POD}"]["status"] = {"phase": "Failed", "initContainerStatuses": [failed]}
        containers = []

        def log_of(request: web.Request) -> web.Response | None:
            if not request.path.endswith("/log"):
                return None
            containers.append(request.query["container"])
            return web.Response(text="no database\n")

        server.answer = log_of
        assert await client.driver_log(submitted) == DriverLog(stderr="no database\n")
    assert containers == ["wait-for-db"]


async def test_the_log_of_a_driver_on_a_lost_node_is_not_requested(server: FakeApi) -> None:
    """Only the node has the log, so a request would wait until its timeout."""
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
        server.objects[f"{ROOT}/pods/{POD}"]["status"] = {"phase": "Running", "conditions": conditions}
        refuse(server, f"GET {ROOT}/pods/{POD}/log", web.Response(text="the log"))
        assert await client.driver_log(submitted) == DriverLog()


async def test_every_call_fails_when_the_api_server_hangs(server: FakeApi) -> None:
    server.hangs = True
    async with client_of(server, timeout_s=0.05) as client:
        calls: list[Any] = [
            client.snapshot(),
            client.submit(submission()),
            client.status(f"{POD}@uid-1"),
            client.kill(f"{POD}@uid-1"),
            client.driver_log(f"{POD}@uid-1"),
            client.clean_up("departures"),
        ]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, ClusterUnreachableError)
