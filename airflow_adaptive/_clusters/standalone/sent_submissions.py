"""Recognizes repeated submissions, because a standalone master starts a driver for each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from airflow_adaptive._core.ports import (
    ClusterUnreachableError,
    DriverSubmission,
    NotSubmittedError,
    SubmissionRefusedError,
)


@dataclass(slots=True)
class _Sent:
    """A submission that was sent; `submission_id` is None while the outcome is unknown."""

    identity: tuple[int, str]
    submission_id: str | None = None


class SentSubmissions:
    """The newest submission of each job that a client has sent.

    The client forgets its submissions when its process ends. This is sufficient, because no other process repeats a submission: the control
    loop writes the epoch of a driver to the journal before the submission, and a loop that takes over observes this driver or submits
    a driver of the next epoch (`runtime/step_executor.py`).
    """

    def __init__(self) -> None:
        self._newest: dict[str, _Sent] = {}

    def is_repeated(self, submission: DriverSubmission) -> bool:
        """Return whether a submission with the same name, epoch and nonce was sent, and was not refused."""
        sent = self._newest.get(submission.name)
        return sent is not None and sent.identity == (submission.epoch, submission.nonce)

    async def send_once(self, submission: DriverSubmission, send: Callable[[], Awaitable[str]]) -> str:
        """Return the submission id of the driver. Send the submission unless it is repeated.

        Raises:
            ClusterUnreachableError: the submission is repeated, and the outcome of the first request is unknown.
            PortError: `send` has raised the error.
        """
        if self.is_repeated(submission):
            return self._submission_id(submission)
        sent = self._newest[submission.name] = _Sent((submission.epoch, submission.nonce))
        try:
            sent.submission_id = await send()
        except (NotSubmittedError, SubmissionRefusedError):
            if self._newest.get(submission.name) is sent:
                self.forget(submission.name)
            raise
        return sent.submission_id

    def forget(self, job: str) -> None:
        """Forget the submission of a job."""
        self._newest.pop(job, None)

    def _submission_id(self, submission: DriverSubmission) -> str:
        submission_id = self._newest[submission.name].submission_id
        if submission_id is None:
            raise ClusterUnreachableError(
                f"the driver of {submission.name!r} with epoch {submission.epoch} was submitted before, and whether the master accepted "
                "it is unknown"
            )
        return submission_id
