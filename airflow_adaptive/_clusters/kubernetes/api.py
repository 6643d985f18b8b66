"""Requests to an API server with the API client of kubernetes_asyncio, and their errors, which do not leave the client.

Objects stay plain data: the models of the library cost milliseconds for each pod, and hundreds of jobs share one event loop.

ApiError
├── NotSentError     the API server did not receive the request, or did not begin to process the request
│   └── UnauthorizedError  the API server refused the credentials
├── NoAnswerError    the API server may have received the request; its outcome is unknown
└── RefusedError     the API server refused the request
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Final

import aiohttp
from kubernetes_asyncio.client import ApiClient

from airflow_adaptive._clusters.kubernetes.address import ApiSource, CredentialsError
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import ClusterUnreachableError

ALREADY_EXISTS = "AlreadyExists"
"""Reason of a status 409 for an object whose name is in use. The same status with another reason is a conflict of two changes."""


class ApiError(Exception):
    """A request failed."""


class NotSentError(ApiError):
    """The API server did not receive the request, or refused the request before it processed the request."""


class UnauthorizedError(NotSentError):
    """The API server refused the credentials, also after they were loaded again, or they cannot be loaded."""


class UnknownOutcomeError(ApiError):
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


Query = Mapping[str, str | int]

HEADERS: Final = {"Accept": "application/json, text/plain", "Content-Type": "application/json"}

FAILED_ADMISSION: Final = re.compile(r'failed calling webhook|admission webhook "[^"]*" denied')
"""In the message of a status 500: an admission webhook failed, so the API server stored nothing."""

MAX_MESSAGE: Final = 2000
"""Characters of a response that is not a Status, such as the page of a proxy."""


class KubernetesApi:
    """Sends requests. All jobs of a process that use the same cluster share an instance."""

    def __init__(self, source: ApiSource, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._source = source

    async def request(self, method: str, path: str, *, query: Query | None = None, body: Json | None = None) -> Json:
        """Return the response to a request. Raises `ApiError`."""
        text = await self.text(path, query or {}, method, body)
        try:
            answer: Json = json.loads(text)
        except ValueError as error:
            raise UnknownOutcomeError(f"{method} {path}: the response is not JSON: {_one_line(text)}") from error
        return answer

    async def text(self, path: str, query: Query, method: str = "GET", body: Json | None = None) -> str:
        """Return a response as text, for example the log of a pod. Raises `ApiError`."""
        with _translated(f"{method} {path}"):
            async with await self._send(method, path, query, body) as response, asyncio.timeout(self.timeout_s):
                await self._check(response)
                return await response.text(errors="replace")

    @asynccontextmanager
    async def stream(self, path: str, query: Query, timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a response that must end within `timeout_s`, and give its lines. Raises `ApiError`, also while the caller reads."""
        with _translated(f"GET {path}"):
            async with await self._send("GET", path, query, None) as response, asyncio.timeout(timeout_s):
                await self._check(response)
                yield _lines(response.content)

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise UnauthorizedError(
                f"the API server refuses the credentials: 401 Unauthorized: {self._source.explain_refusal()}"
            )
        await _check(response)

    async def _send(self, method: str, path: str, query: Query, body: Json | None) -> aiohttp.ClientResponse:
        """Send a request, with new credentials if the API server refuses the current credentials."""
        client = await self._source.client()
        response = await self._send_with(client, method, path, query, body)
        if response.status == HTTPStatus.UNAUTHORIZED and await self._source.renew(client):
            response.release()
            response = await self._send_with(await self._source.client(), method, path, query, body)
        return response

    async def _send_with(
        self, client: ApiClient, method: str, path: str, query: Query, body: Json | None
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, connect=self.timeout_s, sock_connect=self.timeout_s)
        async with asyncio.timeout(
            2 * self.timeout_s
        ):  # until a connection is free and open, and until the response begins
            response: aiohttp.ClientResponse = await client.call_api(
                path,
                method,
                query_params=[*query.items()],
                header_params=dict(HEADERS),
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
        return response


@contextmanager
def _translated(request: str) -> Iterator[None]:
    """Translate the errors of the library and of the network."""
    try:
        yield
    except CredentialsError as error:
        raise UnauthorizedError(str(error)) from error
    except ClusterUnreachableError as error:  # The connection cannot be read now.
        raise NotSentError(str(error)) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        raise NotSentError(f"{request}: the API server cannot be reached: {_one_line(str(error))}") from error
    except RuntimeError as error:  # Another job has renewed the credentials twice, so the client is closed.
        raise NotSentError(f"{request}: {error}") from error
    except TimeoutError as error:
        raise UnknownOutcomeError(f"{request}: the API server did not answer in time") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise UnknownOutcomeError(f"{request}: {type(error).__name__}: {_one_line(str(error))}") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a response. `aiohttp` itself refuses lines above 128 KiB, and a pod may have 1.5 MiB."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts = []
        parts.append(rest)
    if any(parts):
        yield b"".join(parts)


async def _check(response: aiohttp.ClientResponse) -> None:
    """Raise the error that a response reports."""
    if response.ok:
        return
    status, text = response.status, await response.text(errors="replace")
    reason, message = _reason(text)
    detail = f"{status} {message or response.reason or ''}".rstrip()
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise NotSentError(f"the API server refuses the request for now: {detail}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and FAILED_ADMISSION.search(message):
        raise NotSentError(f"the API server cannot admit the request now: {detail}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnknownOutcomeError(f"the API server failed: {detail}")
    raise RefusedError(status, reason, message or detail)


def _reason(text: str) -> tuple[str, str]:
    """Return the reason and the message of a Status. Servers that are no API server respond with other texts."""
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return "", _one_line(text)
    return str(status.get("reason") or ""), _one_line(str(status.get("message") or ""))


def _one_line(text: str) -> str:
    return " ".join(text[:MAX_MESSAGE].split())
