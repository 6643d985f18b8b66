"""What *Test connection* in Airflow reports about a standalone cluster. The test starts no driver.

Theory: two settings of the master refuse submissions, and no endpoint returns their values. A submission without a main class reveals both:
the master checks the size of the body, then the application resource, and then refuses the submission, because the class is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import REST_HINT, StandaloneCluster
from airflow_adaptive._clusters.standalone.http import Credentials, Http, MasterError, RefusalError
from airflow_adaptive._clusters.standalone.rest import read_refusal, read_version
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive._core.python_version import UnsupportedVersionError
from airflow_adaptive.job.spark_internals import require_supported

UNKNOWN_DRIVER: Final = "driver-of-the-connection-test"

BODY_KIB: Final = 64
"""Size of a submission with many arguments and properties. Spark's default limit is 100 MiB."""

SETTINGS: Final = "spark.master.rest.allowedAppResourcePatterns and spark.master.rest.maxRequestBodySize"


async def report(address: ClusterAddress, transport: httpx.AsyncBaseTransport | None = None) -> str:
    """Return the version of Spark with a warning if it is too old, the workers, the free slots, and that the master accepts submissions.

    Raises:
        ClusterUnreachableError: no master leads, or its REST submission server does not answer.
        ClusterRefusedError: the leading master refuses submissions. The message also contains what works.
    """
    cluster = StandaloneCluster(address, transport=transport)
    http = Http(address, Credentials(address), transport)
    try:
        snapshot = await cluster.snapshot()
        leader = next(master for master in address.masters if master.ui_url == snapshot.ui_url)
        version = await _version(http, leader, snapshot)
        try:
            await _require_acceptance(http, leader)
        except MasterError as error:
            raise ClusterRefusedError(f"{version}, {_resources(snapshot)}. Submissions are refused: {error}") from error
    finally:
        await cluster.close()
        await http.close()
    return f"{version}, {_resources(snapshot)}. REST submission is enabled. {SETTINGS} accept submissions of {BODY_KIB} KiB."


async def _version(http: Http, leader: MasterAddress, snapshot: ClusterSnapshot) -> str:
    url = f"{leader.rest_url}/v1/submissions/status/{UNKNOWN_DRIVER}"
    try:
        version = await http.request("GET", url, read_version, REST_HINT)
    except MasterError as error:
        place = f"Spark at {snapshot.master_url}"
        raise ClusterUnreachableError(
            f"{place}, {_resources(snapshot)}. REST submission is not enabled: {error}"
        ) from error
    return f"{_warning(version)}Spark {version} at {snapshot.master_url}"


def _warning(version: str) -> str:
    """Return why no driver can run with a version of Spark, as the begin of a text; "" if drivers can run."""
    try:
        require_supported(version)
    except UnsupportedVersionError as error:
        return f"Every job will fail: {error}. "
    return ""


async def _require_acceptance(http: Http, leader: MasterAddress) -> None:
    """Raise `RefusalError` if a setting of the master refuses submissions, and other `MasterError` if the master does not answer."""
    url, problems = f"{leader.rest_url}/v1/submissions/create", []
    for body in (_body(""), _body("x" * (BODY_KIB << 10))):
        try:
            await http.request("POST", url, read_refusal, REST_HINT, body)
        except RefusalError as error:
            problems.append(str(error))
    if problems:
        raise RefusalError("; ".join(dict.fromkeys(problems)))


def _body(argument: str) -> Mapping[str, Any]:
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "airflow-adaptive",
        "appResource": "",
        "appArgs": [argument],
        "sparkProperties": {"spark.app.name": UNKNOWN_DRIVER},
        "environmentVariables": {},
    }


def _resources(snapshot: ClusterSnapshot) -> str:
    free, total = (
        sum(getattr(worker, name).cpu_millicores for worker in snapshot.workers) // 1000 for name in ("free", "total")
    )
    return f"{len(snapshot.workers)} workers, {free} of {total} slots are free"
