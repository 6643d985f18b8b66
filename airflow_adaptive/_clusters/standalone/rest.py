"""The documents of Spark's standalone master: its state (`/json/`) and its REST submission protocol (v1).

They are also the pages of a worker with the output of a driver (`/logPage/` for users, `/log/` for programs). The module performs no I/O. Sources in
Spark: `JsonProtocol`, `SubmitRestProtocolRequest`, `StandaloneRestServer`, `DriverState`, `org.apache.spark.deploy.worker.ui.LogPage`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from airflow_adaptive import __version__
from airflow_adaptive._clusters.properties import REDACTION, redaction_pattern, secret_properties, standalone_properties
from airflow_adaptive._clusters.standalone.http import NotLeadingError, ProtocolError, RefusalError
from airflow_adaptive._core.ports import (
    MIB,
    ActiveDriver,
    ClusterSnapshot,
    DriverSubmission,
    LogPages,
    Resources,
    SubmissionState,
    SubmissionStatus,
    Worker,
)
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE

LEADER = "ALIVE"
"""Status of the leading master; other masters are STANDBY, RECOVERING or COMPLETING_RECOVERY."""

DECOMMISSIONED = "DECOMMISSIONED"
"""State of a worker that starts nothing any more, and whose executors end. Its drivers continue until the worker stops."""

NOT_LEADING = "Current state is not alive"
"""Start of the rejection of a master that does not lead (`Utils.BACKUP_STANDALONE_MASTER_PREFIX`)."""

PYTHON_DRIVER = "org.apache.spark.deploy.SparkSubmit"
"""Main class of a Python driver. The server does not support Python, but it can run spark-submit in client mode."""

WEB_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")
"""Address of a web UI. The pages of a worker with any other address are not linked and not read."""

LOST_WORKER = "its worker was lost: it may be running still"

REMEDIES = {
    "Valid application jar path is required": (
        "the setting spark.master.rest.allowedAppResourcePatterns of the master refuses submissions without an application resource. Add "
        "the pattern () to the setting"
    ),
    "spark.master.rest.maxRequestBodySize": (
        "increase this setting of the master, or move long arguments and properties to a file in the job directory"
    ),
}
"""Part of the message of a refusal -> its cause and its remedy. Both settings exist since Spark 4.3."""

DECOMMISSION = "spark.decommission.enabled"
"""Property with which executors exit when their worker is decommissioned. Otherwise they stay without tasks until the worker stops."""

MISSING_CLASS = "Main class is missing"
"""Part of the message with which every version of Spark refuses a submission without a main class."""

STATES = {
    "SUBMITTED": SubmissionState.SUBMITTED,
    "RELAUNCHING": SubmissionState.SUBMITTED,
    "RUNNING": SubmissionState.RUNNING,
    "FINISHED": SubmissionState.FINISHED,
    "FAILED": SubmissionState.FAILED,
    "KILLED": SubmissionState.KILLED,
}


def create_request(submission: DriverSubmission, master_url: str) -> dict[str, Any]:
    """Return the `CreateSubmissionRequest` that runs a PySpark driver in cluster mode. Raises as `check_submission`.

    Properties become arguments of the driver's process, which all users of its host can list. Secret properties are in
    its environment instead, as JSON in the variable `SECRET_CONF_VARIABLE`; the job's runtime sets them on the session.
    A property that spark-submit reads itself remains an argument, unless its name is secret. Spark's web pages and event logs redact the same
    properties, unless a property overrides this.
    """
    properties = {**submission.conf, **standalone_properties(submission)}
    names = submission.secret_names
    secret = secret_properties(properties, names)
    conf = {name: value for name, value in properties.items() if name not in secret}
    conf.setdefault(REDACTION, redaction_pattern(names))
    conf.setdefault(DECOMMISSION, "true")
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": f"airflow-adaptive/{__version__}",
        "appResource": "",
        "mainClass": PYTHON_DRIVER,
        "appArgs": _arguments(submission, conf, master_url),
        "sparkProperties": {
            **{name: value for name, value in conf.items() if name.startswith("spark.driver.")},
            "spark.app.name": _application_name(submission),
            "spark.master": master_url,
            "spark.driver.cores": str(submission.driver_cores),
            "spark.driver.memory": f"{submission.driver_memory_mb}m",
            "spark.driver.supervise": "false",
        },
        "environmentVariables": {
            "SPARK_ENV_LOADED": "1",  # the worker has already read its spark-env.sh
            **submission.env,
            **submission.secret_env,
            **({SECRET_CONF_VARIABLE: json.dumps(secret)} if secret else {}),
            **({SECRET_ENV_VARIABLE: json.dumps(list(submission.secret_env))} if submission.secret_env else {}),
        },
    }


def _application_name(submission: DriverSubmission) -> str:
    return submission.conf.get("spark.app.name", submission.name)


def _arguments(submission: DriverSubmission, conf: Mapping[str, str], master_url: str) -> list[str]:
    """Return the command line of spark-submit. Without `--master` the driver would run as local[*]."""
    options = ["--master", master_url, "--name", _application_name(submission)]
    if submission.py_files:
        options += ["--py-files", ",".join(submission.py_files)]
    for name, value in conf.items():
        options += ["--conf", f"{name}={value}"]
    return [*options, submission.script, *submission.args]


def read_state(answer: object, master_url: str, ui_url: str) -> ClusterSnapshot:
    """Read the response to `GET /json/` of the web UI at `ui_url`. Raises `NotLeadingError` or `ProtocolError`."""
    fields = _object(answer)
    try:
        workers = [_worker(worker) for worker in fields["workers"] if worker["state"] == "ALIVE"]
        granted = {str(application["id"]): int(application["cores"]) for application in fields["activeapps"]}
        names = {str(application["id"]): str(application.get("name")) for application in fields["activeapps"]}
        leaving = {
            worker["id"]: str(worker.get("host")) for worker in fields["workers"] if worker["state"] == DECOMMISSIONED
        }
        drivers = {str(driver["id"]): _driver(driver, leaving) for driver in fields.get("activedrivers", ())}
        pages = _log_pages(fields, workers)
        status = str(fields["status"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"not the state of a Spark master ({error!r})") from error
    if status != LEADER:
        raise NotLeadingError(f"{ui_url}: the master is {status}")
    return ClusterSnapshot(
        workers=tuple(sorted(workers, key=lambda worker: worker.worker_id)),
        granted=granted,
        master_url=master_url,
        ui_url=ui_url,
        log_pages=pages,
        names=names,
        drivers=drivers,
    )


def read_submission(answer: object) -> str:
    """Return the submission id of a `CreateSubmissionResponse`. Raises `RefusalError`, `NotLeadingError` or `ProtocolError`."""
    fields = _response(answer, "CreateSubmissionResponse")
    submission_id = fields.get("submissionId")
    if fields.get("success") is not True or not isinstance(submission_id, str):
        raise RefusalError(f"the master refused the submission: {_message(fields) or 'it gives no reason'}")
    return submission_id


def read_status(answer: object) -> SubmissionStatus:
    """Return the state of a `SubmissionStatusResponse`. Raises `RefusalError`, `NotLeadingError` or `ProtocolError`.

    A driver whose worker was lost is in state ERROR without a message. The driver may still run, so its state is
    UNKNOWN. An ERROR that the worker reports has the exception as its message.
    """
    fields = _response(answer, "SubmissionStatusResponse")
    message = _message(fields)
    if fields.get("success") is not True:
        return SubmissionStatus(state=SubmissionState.UNKNOWN, message=message)
    worker = str(fields.get("workerHostPort") or "")
    state = STATES.get(str(fields.get("driverState")), SubmissionState.UNKNOWN)
    if fields.get("driverState") == "ERROR":
        state, message = (SubmissionState.FAILED, message) if message else (SubmissionState.UNKNOWN, LOST_WORKER)
    return SubmissionStatus(state=state, message=message, worker_address=worker)


def read_version(answer: object) -> str:
    """Return the version of Spark in a `SubmissionStatusResponse`. Raises as `read_status`."""
    return str(_response(answer, "SubmissionStatusResponse").get("serverSparkVersion") or "of unknown version")


def read_refusal(answer: object) -> None:
    """Check that a submission without a main class is refused for this reason only. Raises `RefusalError` if a setting refuses it, too."""
    try:
        _response(answer, "CreateSubmissionResponse")
    except RefusalError as error:
        if MISSING_CLASS not in str(error):
            raise


def read_kill(answer: object) -> None:
    """Check a `KillSubmissionResponse`. An unknown driver and a driver that has ended are not errors. Raises as `read_submission`."""
    _response(answer, "KillSubmissionResponse")


def _worker(fields: Mapping[str, Any]) -> Worker:
    return Worker(
        worker_id=str(fields["id"]),
        address=str(fields["webuiaddress"]),
        total=_resources(fields["cores"], fields["memory"]),
        free=_resources(fields["coresfree"], fields["memoryfree"]),
    )


def _driver(fields: Mapping[str, Any], leaving: Mapping[str, str]) -> ActiveDriver:
    state, host = STATES.get(str(fields["state"]), SubmissionState.UNKNOWN), leaving.get(str(fields.get("worker")), "")
    leaves = f"the worker of the driver on {host} was decommissioned" if host else ""
    return ActiveDriver(state=state, request=_resources(fields["cores"], fields["memory"]), leaves=leaves)


def _resources(cores: Any, memory_mb: Any) -> Resources:
    return Resources(1000 * int(cores), MIB * int(memory_mb))


def _log_pages(fields: Mapping[str, Any], workers: Iterable[Worker]) -> dict[str, LogPages]:
    """Return the log pages of drivers on living workers; a master forgets drivers that ended long ago."""
    address = {worker.worker_id: worker.address for worker in workers if WEB_ADDRESS.fullmatch(worker.address)}
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
        remedy = "".join(f": {remedy}" for part, remedy in REMEDIES.items() if part in message)
        raise RefusalError(f"the master answers with an error: {message or 'without a message'}{remedy}")
    if fields.get("action") != action:
        raise ProtocolError(f"not a {action}")
    return fields


def _message(fields: Mapping[str, Any]) -> str:
    """Return the message of the server on one line, without the stack trace."""
    lines = str(fields.get("message") or "").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("\t"))


MAX_BYTES = 16 * 1024
"""Number of bytes to read from the end of one output."""

HEADER = re.compile(r"==== Bytes (\d+)-\d+ of \d+ of .* ====\n")

NO_LOG = "Error: invalid log directory"
"""Response after the worker has removed the driver's directory (`spark.worker.cleanup.enabled`), or if it never had
one."""


def log_pages(address: str, submission_id: str) -> LogPages:
    """Return the pages of a driver's outputs on the web UI of its worker."""
    page = f"{address}/logPage/?driverId={quote(submission_id, safe='')}&logType="
    return LogPages(stdout=f"{page}stdout", stderr=f"{page}stderr")


def log_url(page: str) -> str:
    """Return the URL at which programs read the end of the output of a page for users."""
    address, _, query = page.rpartition("/logPage/?")
    return f"{address}/log/?{query}&byteLength={MAX_BYTES}"


def read_log(text: str) -> str:
    """Return the output from its first complete line. Raises `ProtocolError`."""
    header = HEADER.match(text)
    if header is None:
        raise ProtocolError("not the log of a Spark worker")
    log = text[header.end() :]
    if log.startswith(NO_LOG):
        return ""
    return log if header[1] == "0" else log.partition("\n")[2]
