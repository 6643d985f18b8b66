"""Errors of a request to the API server. The errors do not leave the client.

ApiError
├── NotSentError     the API server did not receive the request, or did not begin to process the request
│   └── UnauthorizedError  the API server refused the credentials
├── NoAnswerError    the API server may have received the request; its outcome is unknown
└── RefusedError     the API server refused the request
"""

from __future__ import annotations

from http import HTTPStatus

ALREADY_EXISTS = "AlreadyExists"
"""Reason of a status 409 for an object whose name is in use. The same status with another reason is a conflict of two changes."""


class ApiError(Exception):
    """A request failed."""


class NotSentError(ApiError):
    """The API server did not receive the request, or refused the request before it processed the request."""


class UnauthorizedError(NotSentError):
    """The API server refused the credentials, also after they were loaded again, or they cannot be loaded."""


class NoAnswerError(ApiError):
    """The outcome of the request is unknown."""


class RefusedError(ApiError):
    """The API server refused the request.

    Attributes:
        status: HTTP status.
        reason: reason for programs, such as `AlreadyExists`; "" without one.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_missing(self) -> bool:
        """Whether the object does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def is_duplicate(self) -> bool:
        """Whether an object of the same name exists."""
        return self.status == HTTPStatus.CONFLICT and self.reason == ALREADY_EXISTS

    @property
    def is_conflict(self) -> bool:
        """Whether a precondition of the request does not hold, or another change came first."""
        return self.status == HTTPStatus.CONFLICT and self.reason != ALREADY_EXISTS

    @property
    def is_over_quota(self) -> bool:
        """Whether a ResourceQuota has no room for the object now."""
        return self.status == HTTPStatus.FORBIDDEN and "exceeded quota" in str(self)

    @property
    def is_expired(self) -> bool:
        """Whether the API server does not have the requested version any more."""
        return self.status == HTTPStatus.GONE
