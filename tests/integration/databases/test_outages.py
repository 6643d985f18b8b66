"""A job while Airflow's database is unavailable for a minute, or fails over to a standby. Airflow's processes that end are started again, as by systemd or Kubernetes."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow
from tests.support.waiting import repeated

pytestmark = pytest.mark.timeout(600)

API = "/adaptive/api/v1/jobs"

AUDITED = "SELECT count(*) AS count FROM log WHERE event = 'adaptive_requirements' AND dag_id = '{job}'"

OUTAGE_S = 60.0

REQUEST_TIMEOUT_S = 15.0

RECOVERY_S = 240.0
"""Longest time in which all of Airflow's processes work again after an outage. The machine may be busy."""


class Requests:
    """A user who changes the upper bound of a job about once per second. Each request has a bound of its own.

    Attributes:
        accepted: upper bounds of the requests with a 2xx response.
        unanswered: upper bounds of the requests without a response. Airflow may store such a request, also after a later one.
        refused: number of the other responses of each status.
    """

    def __init__(self, airflow: ReplicatedAirflow, job: str) -> None:
        self.accepted: list[int] = []
        self.unanswered: list[int] = []
        self.refused: Counter[int] = Counter()
        self._url = f"{airflow.url}{API}/{job}/resource-requirements"
        self._headers = dict(airflow.api._client.headers)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests during the block."""
        uppers = itertools.count(2)
        with repeated(lambda: self._send(next(uppers)), 1):
            yield

    def _send(self, upper: int) -> None:
        body: dict[str, Any] = {"json": {"job": bounds(1, upper)}, "headers": self._headers}
        try:
            response = httpx.put(self._url, **body, timeout=REQUEST_TIMEOUT_S, trust_env=False)
        except httpx.TransportError:
            self.unanswered.append(upper)
            return
        if response.is_success:
            self.accepted.append(upper)
        else:
            self.refused[response.status_code] += 1


def rows(folder: Path) -> int:
    """Return the number of rows that the job has written, 0 while Spark writes a file."""
    with suppress(FileNotFoundError, pa.ArrowInvalid):
        return int(pq.read_table(folder / "output").num_rows)
    return 0


def requested_upper(airflow: ReplicatedAirflow, job: str) -> int | None:
    """Return the upper bound that the loop has applied; None if the API server does not answer."""
    with suppress(httpx.HTTPError):
        found = airflow.api._find(f"{API}/{job}")
        if found["requirements_source"]["origin"] == "USER":
            return int(found["requirements"]["job"]["upper"])
    return None


@pytest.mark.parametrize(
    "outage", ["crashed", *(pytest.param(it, marks=pytest.mark.long) for it in ("frozen", "failed_over"))]
)
def test_job_continues_and_no_accepted_request_is_lost(
    airflow: ReplicatedAirflow, playground: Path, spark_cluster: LocalCluster, outage: str
) -> None:
    """The outage is also the name of the job."""
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run, folder = Run(airflow, playground, outage), playground / outage
    run.until_executing(1)
    wait_until(lambda: rows(folder) == 3, TIMEOUT_S, "the rows before the outage")
    driver = run.status().submission_id
    requests = Requests(airflow, outage)
    with airflow.supervised(), requests.running():
        wait_until(lambda: requests.accepted, TIMEOUT_S, "an accepted request")
        with getattr(airflow.server, outage)():
            before, ends_s = len(requests.accepted), time.monotonic() + OUTAGE_S
            (folder / "input" / "during.txt").write_text("four\nfive\n")
            wait_until(lambda: rows(folder) == 5, OUTAGE_S, "the rows of the outage")
            wait_until(lambda: time.monotonic() > ends_s, 2 * OUTAGE_S, "the end of the outage")
        wait_until(lambda: len(requests.accepted) > before + 1, RECOVERY_S, "an accepted request after the outage")
    newest = {requests.accepted[-1], *requests.unanswered}
    wait_until(lambda: requested_upper(airflow, outage) in newest, RECOVERY_S, "the last accepted request")
    assert set(requests.refused) <= {503}
    audited = airflow.rows(AUDITED.format(job=outage))[0].count
    assert audited >= len(requests.accepted)
    airflow.api._request("POST", f"{API}/{outage}/suspend", {})
    run.until_task("success")
    assert (run.status().submission_id, run.status().epoch) == (driver, 1)
    assert airflow.api.try_number(outage, run.run_id, "job") == 1
