"""The documents of Spark's standalone master: its state (`/json/`) and its REST submission protocol (v1).

Pure: no I/O. Sources in Spark: `JsonProtocol`, `SubmitRestProtocolRequest`, `StandaloneRestServer`, `DriverState`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_adaptive import __version__
from airflow_adaptive.ports import (
    SECRET_CONF_VARIABLE,
    ClusterSnapshot,
    DriverSubmission,
    LivingDriver,
    LogPages,
    SubmissionRefusedError,
    SubmissionState,
    SubmissionStatus,
    Worker,
)
from airflow_adaptive.spark.errors import NotLeadingError, ProtocolError, RefusalError
from airflow_adaptive.spark.secrets import SECRET_PATTERN, SECRET_PROPERTY
from airflow_adaptive.spark.worker_log import log_pages

LEADER = "ALIVE"
"""Status of the master that leads; others are STANDBY, RECOVERING or COMPLETING_RECOVERY."""

NOT_LEADING = "Current state is not alive"
"""How a master that does not lead begins its refusal (`Utils.BACKUP_STANDALONE_MASTER_PREFIX`)."""

PYTHON_DRIVER = "org.apache.spark.deploy.SparkSubmit"
"""The server knows no Python; spark-submit in client mode does, and it runs wherever the server starts it."""

REDACTION = "spark.redaction.regex"

LOST_WORKER = "its worker was lost: it may be running still"

STATES = {
    "SUBMITTED": SubmissionState.SUBMITTED,
    "RELAUNCHING": SubmissionState.SUBMITTED,
    "RUNNING": SubmissionState.RUNNING,
    "FINISHED": SubmissionState.FINISHED,
    "FAILED": SubmissionState.FAILED,
    "KILLED": SubmissionState.KILLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterState:
    """What a master tells of itself.

    Attributes:
        status: "ALIVE" for the leader.
        snapshot: of the cluster; only the leader's means anything.
    """

    status: str
    snapshot: ClusterSnapshot


def check_submission(submission: DriverSubmission) -> None:
    """Refuse what must not be sent.

    Raises:
        SubmissionRefusedError: the driver has no size, or the cluster would restart it behind the scheduler's back.
    """
    if submission.driver_cores < 1 or submission.driver_memory_mb < 1:
        raise SubmissionRefusedError(
            f"driver of {submission.name!r} with {submission.driver_cores} cores and {submission.driver_memory_mb} MiB: "
            "both must be at least 1"
        )
    if submission.conf.get("spark.driver.supervise", "false").lower() != "false":
        raise SubmissionRefusedError(
            f"spark.driver.supervise of {submission.name!r} must be off: the scheduler restarts the driver, not the cluster"
        )


def create_request(submission: DriverSubmission, master_url: str) -> dict[str, Any]:
    """The `CreateSubmissionRequest` that runs a PySpark driver in cluster mode.

    Properties become arguments of the driver's process, which everybody on its host can list. Secret ones travel in its
    environment instead, as JSON in the variable `SECRET_CONF_VARIABLE`; the job's runtime sets them on the session. What
    is secret to us is to Spark's web pages and event logs, too, unless a property says else.

    Args:
        submission: what to run.
        master_url: the master, or masters, that the driver asks for executors.

    Raises:
        SubmissionRefusedError: see `check_submission`.
    """
    check_submission(submission)
    secret = {name: value for name, value in submission.conf.items() if SECRET_PROPERTY.search(name)}
    conf = {name: value for name, value in submission.conf.items() if name not in secret}
    conf.setdefault(REDACTION, f"(?i){SECRET_PATTERN}")
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": f"airflow-adaptive/{__version__}",
        "appResource": "",
        "mainClass": PYTHON_DRIVER,
        "appArgs": _arguments(submission, conf, master_url),
        "sparkProperties": {
            **{name: value for name, value in conf.items() if name.startswith("spark.driver.")},
            "spark.app.name": submission.name,
            "spark.master": master_url,
            "spark.driver.cores": str(submission.driver_cores),
            "spark.driver.memory": f"{submission.driver_memory_mb}m",
            "spark.driver.supervise": "false",
        },
        "environmentVariables": {
            "SPARK_ENV_LOADED": "1",  # the worker's spark-env.sh has been read
            **submission.env,
            **({SECRET_CONF_VARIABLE: json.dumps(secret)} if secret else {}),
        },
    }


def _arguments(submission: DriverSubmission, conf: Mapping[str, str], master_url: str) -> list[str]:
    """The command line of spark-submit; without `--master` the driver would run alone as local[*]."""
    options = ["--master", master_url, "--name", submission.name]
    if submission.py_files:
        options += ["--py-files", ",".join(submission.py_files)]
    for name, value in conf.items():
        options += ["--conf", f"{name}={value}"]
    return [*options, submission.script, *submission.args]


def read_state(answer: object, master_url: str, ui_url: str) -> MasterState:
    """The answer to `GET /json/` of the web UI at `ui_url`.

    Raises:
        ProtocolError: it is not the state of a Spark master.
    """
    fields = _object(answer)
    try:
        workers = [_worker(worker) for worker in fields["workers"] if worker["state"] == "ALIVE"]
        granted = {str(application["id"]): int(application["cores"]) for application in fields["activeapps"]}
        names = {str(application["id"]): str(application.get("name")) for application in fields["activeapps"]}
        drivers = {str(driver["id"]): _driver(driver) for driver in fields.get("activedrivers", ())}
        pages = _log_pages(fields, workers)
        status = str(fields["status"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"not the state of a Spark master ({error!r})") from error
    workers.sort(key=lambda worker: worker.worker_id)
    snapshot = ClusterSnapshot(
        workers=tuple(workers),
        granted=granted,
        master_url=master_url,
        ui_url=ui_url,
        log_pages=pages,
        names=names,
        drivers=drivers,
    )
    return MasterState(status=status, snapshot=snapshot)


def read_submission(answer: object) -> str:
    """The submission id in a `CreateSubmissionResponse`.

    Raises:
        RefusalError: the master did not accept it.
        NotLeadingError: this master can't accept it.
        ProtocolError: it is no such response.
    """
    fields = _response(answer, "CreateSubmissionResponse")
    submission_id = fields.get("submissionId")
    if fields.get("success") is not True or not isinstance(submission_id, str):
        raise RefusalError(f"the master refused the submission: {_message(fields) or 'it gives no reason'}")
    return submission_id


def read_status(answer: object) -> SubmissionStatus:
    """The state in a `SubmissionStatusResponse`.

    A driver whose worker was lost is in state ERROR without a message: it lived when it was last seen, so it is
    UNKNOWN, not over. An ERROR that the worker reports has the exception as its message.

    Raises:
        RefusalError: the master can't tell.
        NotLeadingError: this master can't know.
        ProtocolError: it is no such response.
    """
    fields = _response(answer, "SubmissionStatusResponse")
    message = _message(fields)
    if fields.get("success") is not True:
        return SubmissionStatus(state=SubmissionState.UNKNOWN, message=message)
    worker = str(fields.get("workerHostPort") or "")
    if fields.get("driverState") == "ERROR":
        if not message:
            return SubmissionStatus(state=SubmissionState.UNKNOWN, message=LOST_WORKER, worker_address=worker)
        return SubmissionStatus(state=SubmissionState.FAILED, message=message, worker_address=worker)
    state = STATES.get(str(fields.get("driverState")), SubmissionState.UNKNOWN)
    return SubmissionStatus(state=state, message=message, worker_address=worker)


def read_kill(answer: object) -> None:
    """A `KillSubmissionResponse`; that the driver is dead or unknown already is no error.

    Raises:
        RefusalError: the master can't do it.
        NotLeadingError: this master can't kill it.
        ProtocolError: it is no such response.
    """
    _response(answer, "KillSubmissionResponse")


def _worker(fields: Mapping[str, Any]) -> Worker:
    return Worker(
        worker_id=str(fields["id"]),
        address=str(fields["webuiaddress"]),
        cores=int(fields["cores"]),
        cores_free=int(fields["coresfree"]),
        memory_mb=int(fields["memory"]),
        memory_free_mb=int(fields["memoryfree"]),
    )


def _driver(fields: Mapping[str, Any]) -> LivingDriver:
    state = STATES.get(str(fields["state"]), SubmissionState.UNKNOWN)
    return LivingDriver(state=state, cores=int(fields["cores"]), memory_mb=int(fields["memory"]))


def _log_pages(fields: Mapping[str, Any], workers: Iterable[Worker]) -> dict[str, LogPages]:
    """Where the drivers on living workers can be read; a master forgets those that ended long ago."""
    address = {worker.worker_id: worker.address for worker in workers}
    drivers = [*fields.get("activedrivers", ()), *fields.get("completeddrivers", ())]
    return {
        str(driver["id"]): log_pages(address[driver["worker"]], str(driver["id"]))
        for driver in drivers
        if driver.get("worker") in address
    }


def _object(answer: object) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise ProtocolError(f"not an object but {type(answer).__name__}")
    return answer


def _response(answer: object, action: str) -> Mapping[str, Any]:
    fields = _object(answer)
    message = _message(fields)
    if NOT_LEADING in message:
        raise NotLeadingError(message)
    if fields.get("action") == "ErrorResponse":
        raise RefusalError(f"the master answers with an error: {message or 'without a message'}")
    if fields.get("action") != action:
        raise ProtocolError(f"not a {action}")
    return fields


def _message(fields: Mapping[str, Any]) -> str:
    """The server's words without the stack trace, on one line."""
    lines = str(fields.get("message") or "").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("\t"))
