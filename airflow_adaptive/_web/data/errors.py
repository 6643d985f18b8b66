"""Errors of requests about a job: the REST API and the command line render the errors in their own forms."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus


class RequestRefusedError(Exception):
    """A request that cannot be served.

    Attributes:
        status: HTTP status that corresponds to the error.
        kind: name of the kind of error, for programs.
        detail: human-readable description of the error and of its fix.
        violations: all violations, if the request has more than one.
        retry_after_s: time after which a retry may succeed, in seconds; None if a retry cannot succeed.
    """

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        violations: Sequence[str] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s


def not_found(detail: str) -> RequestRefusedError:
    """The named object does not exist."""
    return RequestRefusedError(HTTPStatus.NOT_FOUND, "not-found", detail)


def conflict(kind: str, detail: str, retry_after_s: int | None = None) -> RequestRefusedError:
    """The state of the job does not allow the request."""
    return RequestRefusedError(HTTPStatus.CONFLICT, kind, detail, retry_after_s=retry_after_s)
