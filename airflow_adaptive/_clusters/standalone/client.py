"""Client of a Spark standalone cluster, over the HTTP endpoints of its masters.

Workers and grants come from `/json/` of the web UI. The REST submission server, which must be on
(`spark.master.rest.enabled=true`), submits, observes and kills drivers. Source: Spark's "Standalone Mode" page and
`StandaloneRestServer`.

Theory: two settings of the master refuse submissions, and no endpoint returns their values. A submission without a main class reveals both:
the master checks the size of the body, then the application resource, and then refuses the submission, because the class is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx

from airflow_adaptive._clusters.properties import masked
from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.http import (
    Credentials,
    ForeignAnswerError,
    Http,
    MasterError,
    NoAnswerError,
    RefusalError,
    Renew,
)
from airflow_adaptive._clusters.standalone.rest import (
    MAX_BYTES,
    create_request,
    log_url,
    read_kill,
    read_log,
    read_refusal,
    read_state,
    read_status,
    read_submission,
    read_version,
)
from airflow_adaptive._core.ports import (
    ClusterRefusedError,
    ClusterSnapshot,
    ClusterUnreachableError,
    DriverLog,
    DriverSubmission,
    NotSubmittedError,
    Request,
    SubmissionRefusedError,
    SubmissionStatus,
)
from airflow_adaptive._core.python_version import UnsupportedVersionError
from airflow_adaptive.job.spark_internals import require_supported

Answer = TypeVar("Answer")

UI_HINT = "check that the master is running, and that this is its web UI (extra `ui-port`, `ui-scheme`)"
REST_HINT = (
    "check that its REST submission server is on (spark.master.rest.enabled=true), and that this is its port (extra `rest-port`, "
    "`rest-scheme`)"
)
WORKER_HINT = "check that this machine can reach the web UI of the worker"


class NoLeaderError(ClusterUnreachableError):
    """No master accepted the request."""


class StandaloneCluster:
    """A `ClusterClient` for Spark standalone. The leading master answers each request."""

    def __init__(
        self,
        address: ClusterAddress,
        *,
        renew: Renew | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = address
        self._credentials = Credentials(address, renew)
        self._http = Http(address, self._credentials, transport)
        self._ui_http = Http(address, self._credentials, transport)
        """Connections of its own for the state of the cluster, which must not wait for the requests of single drivers."""
        self._last_leader = address.masters[0]
        self._sent = SentSubmissions()
        self._log_listing: asyncio.Task[ClusterSnapshot] | None = None
        """Snapshot with the pages of all logs, which loops that read logs at the same time share."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.master_url!r})"

    async def check(self, driver: Request | None = None, executor: Request | None = None) -> None:
        """Do nothing: a master accepts each driver, or refuses it with a message."""

    async def snapshot(self) -> ClusterSnapshot:
        """Return the living workers and the grants, according to the leader. Raises `ClusterUnreachableError`."""
        return await self._request_leader(self._state)

    async def submit(self, submission: DriverSubmission) -> str:
        """Start a driver and return its submission id; a repeated submission returns the id of the same driver.

        The client recognizes a submission that the same process repeats; `SentSubmissions` explains why this is sufficient.

        Raises `NotSubmittedError`, `ClusterUnreachableError` (whether it was accepted is unknown) or
        `SubmissionRefusedError`.
        """
        return await self._sent.send_once(submission, lambda: self._create(submission))

    async def _create(self, submission: DriverSubmission) -> str:
        """Let the leading master create a driver. Raises as `submit`."""
        address = self._address
        secret_env = {name: value for name, value in address.secret_env.items() if name not in submission.env}
        conf = {**address.conf, **submission.conf}
        submission = replace(submission, conf=conf, secret_names=address.secret_names, secret_env=secret_env)
        request = create_request(submission, self._address.master_url)

        async def create(master: MasterAddress) -> str:
            try:
                return await self._http.request(
                    "POST", _submissions(master, "create"), read_submission, REST_HINT, request
                )
            except (ForeignAnswerError, RefusalError) as error:
                raise SubmissionRefusedError(str(error)) from error
            except NoAnswerError as error:  # the master may have accepted it, so do not try another master
                raise ClusterUnreachableError(str(error)) from error

        try:
            return await self._request_leader(create)
        except NoLeaderError as error:
            raise NotSubmittedError(str(error)) from error

    async def status(self, submission_id: str) -> SubmissionStatus:
        """Return the state of a driver, according to the leader. Raises `ClusterUnreachableError`."""
        return await self._request_leader(
            lambda master: self._http.request(
                "GET", _submissions(master, "status", submission_id), read_status, REST_HINT
            )
        )

    async def kill(self, submission_id: str) -> None:
        """Kill a driver. A repeated request, or one for a driver that has ended, is not an error.

        Raises `ClusterUnreachableError`.
        """
        await self._request_leader(
            lambda master: self._http.request("POST", _submissions(master, "kill", submission_id), read_kill, REST_HINT)
        )

    async def kill_epochs(self, job: str, nonce: str, epochs: Collection[int]) -> None:
        """Kill no driver: the master knows no epochs."""

    async def driver_log(self, submission_id: str) -> DriverLog:
        """Return the end of a driver's output, as its worker publishes it; see `ClusterClient.driver_log`."""
        if self._log_listing is None or self._log_listing.done():
            self._log_listing = asyncio.create_task(self.snapshot())
            self._log_listing.add_done_callback(_retrieve_error)
        pages = (await asyncio.shield(self._log_listing)).log_pages.get(submission_id)
        if pages is None:
            return DriverLog()
        return DriverLog(stdout=await self._output(pages.stdout), stderr=await self._output(pages.stderr))

    async def clean_up(self, job: str) -> None:
        """Forget the submission of a job. The master and its workers remove what drivers leave (`spark.worker.cleanup.enabled`)."""
        self._sent.forget(job)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
        await self._ui_http.close()

    async def _output(self, page: str) -> str:
        try:
            text = await self._http.text(log_url(page), read_log, WORKER_HINT, limit=2 * MAX_BYTES)
        except MasterError as error:
            raise ClusterUnreachableError(str(error)) from error
        return masked(text, (*self._address.secrets, *self._credentials.used))

    async def _state(self, master: MasterAddress) -> ClusterSnapshot:
        def read(answer: object) -> ClusterSnapshot:
            return read_state(answer, f"spark://{master.location}", master.ui_url)

        return await self._ui_http.request("GET", f"{master.ui_url}/json/", read, UI_HINT)

    async def _request_leader(self, request: Callable[[MasterAddress], Awaitable[Answer]]) -> Answer:
        """Return the response of the first leading master, starting with the last known leader."""
        others = [master for master in self._address.masters if master != self._last_leader]
        reasons = []
        for master in (self._last_leader, *others):
            try:
                answer = await request(master)
            except MasterError as error:
                reasons.append(str(error))
            else:
                self._last_leader = master
                return answer
        raise NoLeaderError(f"no master of {self._address.master_url} accepts requests: {'; '.join(reasons)}")


def _retrieve_error(listing: asyncio.Task[ClusterSnapshot]) -> None:
    """Otherwise asyncio logs the error of a snapshot for which no loop waits any more."""
    if not listing.cancelled():
        listing.exception()


def _submissions(master: MasterAddress, *path: str) -> str:
    return "/".join([f"{master.rest_url}/v1/submissions", *(quote(part, safe="") for part in path)])


class SentSubmissions:
    """The newest submission of each job that a client has sent.

    The client forgets its submissions when its process ends. This is sufficient, because no other process repeats a submission: the control
    loop writes the epoch of a driver to the journal before the submission, and a loop that takes over observes this driver or submits
    a driver of the next epoch (`_engine.step_executor`).
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[tuple[int, str], str | None]] = {}
        """Job -> epoch and nonce of its newest submission, and its submission id, None while the outcome is unknown."""

    def is_repeated(self, submission: DriverSubmission) -> bool:
        """Return whether a submission with the same name, epoch and nonce was sent, and was not refused."""
        identity, _ = self._newest.get(submission.name, (None, None))
        return identity == (submission.epoch, submission.nonce)

    async def send_once(self, submission: DriverSubmission, send: Callable[[], Awaitable[str]]) -> str:
        """Return the submission id of the driver. Send the submission unless it is repeated.

        Raises what `send` raises, and `ClusterUnreachableError` if the submission is repeated, and the outcome of the first request is unknown.
        """
        job = submission.name
        if self.is_repeated(submission):
            _, submission_id = self._newest[job]
            if submission_id is None:
                raise ClusterUnreachableError(
                    f"the driver of {job!r} with epoch {submission.epoch} was submitted before, and whether the master accepted it is unknown"
                )
            return submission_id
        sent = self._newest[job] = (submission.epoch, submission.nonce), None
        try:
            submission_id = await send()
        except (NotSubmittedError, SubmissionRefusedError):
            if self._newest.get(job) == sent:
                self.forget(job)
            raise
        if self._newest.get(job) == sent:
            self._newest[job] = sent[0], submission_id
        return submission_id

    def forget(self, job: str) -> None:
        """Forget the submission of a job."""
        self._newest.pop(job, None)


UNKNOWN_DRIVER: Final = "driver-of-the-connection-test"

BODY_KIB: Final = 64
"""Size of a submission with many arguments and properties. Spark's default limit is 100 MiB."""

SETTINGS: Final = "spark.master.rest.allowedAppResourcePatterns and spark.master.rest.maxRequestBodySize"


async def connection_report(address: ClusterAddress, transport: httpx.AsyncBaseTransport | None = None) -> str:
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
