"""A `FakeCluster` as the JSON of the servers of a Spark master and its workers, without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_adaptive._clusters.properties import ALLOCATION
from airflow_adaptive._clusters.standalone.rest import LOST_WORKER, NOT_LEADING
from airflow_adaptive._core.ports import MIB, ClusterSnapshot, DriverSubmission, SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE
from tests.lab.fakes.cluster import FakeCluster

STANDBY = "STANDBY"


def request_kind(url: str) -> str:
    """Return the kind of a request by its URL: state, create, status, kill or log."""
    path = urlsplit(url).path
    if path == "/json/":
        return "state"
    return "log" if path.endswith("/log/") else path.removeprefix("/v1/submissions/").partition("/")[0]


async def answer(cluster: FakeCluster, method: str, url: str, body: bytes) -> bytes:
    """Execute a request, and return the body of the response.

    Raises:
        LookupError: a master does not serve this URL.
    """
    submission_id = unquote(urlsplit(url).path.rpartition("/")[2])
    match method, request_kind(url):
        case "GET", "state":
            return _state(await cluster.snapshot())
        case "GET", "log":
            return await _log(cluster, urlsplit(url).query)
        case "POST", "create":
            created = await cluster.create_driver(_submission(json.loads(body)))
            return _response("CreateSubmissionResponse", submissionId=created)
        case "GET", "status":
            return _status(submission_id, await cluster.status(submission_id))
        case "POST", "kill":
            await cluster.kill(submission_id)
            return _response("KillSubmissionResponse")
        case _:
            raise LookupError(f"{method} {url}: a master does not serve this URL")


def standby_answer(url: str) -> bytes:
    """Return the body of the response of a master that does not lead."""
    if request_kind(url) == "state":
        return json.dumps({"workers": [], "activeapps": [], "activedrivers": [], "status": STANDBY}).encode()
    return _response("ErrorResponse", success=False, message=f"{NOT_LEADING}: {STANDBY}")


async def _log(cluster: FakeCluster, query: str) -> bytes:
    (driver,), (output,) = (parse_qs(query)[name] for name in ("driverId", "logType"))
    text: str = getattr(await cluster.driver_log(driver), output)
    return f"==== Bytes 0-{len(text)} of {len(text)} of /work/{driver}/{output} ====\n{text}".encode()


def _state(cluster: ClusterSnapshot) -> bytes:
    """Return the state of the cluster in the format of `JsonProtocol.writeMasterState`."""
    worker_of = {name: pages.stdout.partition("/logPage")[0] for name, pages in cluster.log_pages.items()}
    ids = {worker.address: worker.worker_id for worker in cluster.workers}
    return json.dumps(
        {
            "workers": [
                {
                    "id": worker.worker_id,
                    "webuiaddress": worker.address,
                    "cores": worker.total.cpu_millicores // 1000,
                    "coresfree": worker.free.cpu_millicores // 1000,
                    "memory": worker.total.memory_bytes // MIB,
                    "memoryfree": worker.free.memory_bytes // MIB,
                    "state": "ALIVE",
                }
                for worker in cluster.workers
            ],
            "activeapps": [
                {"id": name, "name": cluster.names[name], "cores": cores} for name, cores in cluster.granted.items()
            ],
            "activedrivers": [
                {
                    "id": name,
                    "state": driver.state.value,
                    "cores": driver.request.cpu_millicores // 1000,
                    "memory": driver.request.memory_bytes // MIB,
                    "worker": ids.get(worker_of.get(name, ""), "None"),
                }
                for name, driver in cluster.drivers.items()
            ],
            "completeddrivers": [
                {"id": name, "worker": ids[address]}
                for name, address in worker_of.items()
                if name not in cluster.drivers
            ],
            "status": "ALIVE",
        }
    ).encode()


def _submission(request: Mapping[str, Any]) -> DriverSubmission:
    """Decode the submission in a `CreateSubmissionRequest`."""
    arguments, properties = list(request["appArgs"]), request["sparkProperties"]
    given: dict[str, list[str]] = {"--conf": [], "--py-files": [], "--name": [], "--master": []}
    while arguments[0].startswith("--"):
        given[arguments[0]].append(arguments[1])
        del arguments[:2]
    environment = dict(request["environmentVariables"])
    secret = json.loads(environment.pop(SECRET_CONF_VARIABLE, "{}"))
    conf = dict(pair.split("=", 1) for pair in given["--conf"]) | secret
    return DriverSubmission(
        name=given["--name"][0],
        epoch=int(conf.get("spark.airflow.adaptive.epoch", "0")),
        nonce=conf.get("spark.airflow.adaptive.nonce", ""),
        script=arguments[0],
        args=tuple(arguments[1:]),
        py_files=tuple(",".join(given["--py-files"]).split(",")),
        conf=conf,
        env=environment,
        driver_cores=int(properties["spark.driver.cores"]),
        driver_memory_mb=int(properties["spark.driver.memory"].rstrip("m")),
        executors=int(conf.get(f"{ALLOCATION}initialExecutors", "1")),
        max_executors=int(conf.get(f"{ALLOCATION}maxExecutors", "1")),
        executor_cores=int(conf.get("spark.executor.cores", "1")),
        executor_memory_mb=int(conf.get("spark.executor.memory", "1024m").rstrip("m")),
    )


def _status(submission_id: str, status: SubmissionStatus) -> bytes:
    """Return a status response. The status of a driver on a lost worker is ERROR, without a message."""
    lost = status.state is SubmissionState.UNKNOWN and status.message == LOST_WORKER
    known = status.state is not SubmissionState.UNKNOWN or lost
    return _response(
        "SubmissionStatusResponse",
        success=known,
        submissionId=submission_id,
        driverState="ERROR" if lost else status.state.value,
        workerHostPort=status.worker_address,
        message="" if lost else status.message,
    )


def _response(action: str, **fields: object) -> bytes:
    return json.dumps({"action": action, "serverSparkVersion": "fake", "success": True, **fields}).encode()
