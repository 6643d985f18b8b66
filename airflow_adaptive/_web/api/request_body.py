"""Bodies of requests that can change a job: their origin, their media type and their size."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._web.api.security import UserDep
from airflow_adaptive._web.data.errors import RequestRefusedError

MAX_BODY_BYTES: Final = 64 << 10
"""The server refuses a larger body before it reads the body. Airflow has the same limit for a value of a state store."""


async def body_of(user: UserDep, request: Request) -> bytes:
    """Return the body of a request that can change a job.

    The dependency on the user guarantees that the server reads no body without a login.

    Raises:
        RequestRefusedError: the request comes from another site (403), or the body is too large (413) or not JSON (415).
    """
    _refuse_foreign(request)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestRefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Send the header Content-Type: application/json, even without a body. The header blocks forms of other sites.",
        )
    return await _limited(request)


BodyDep = Annotated[bytes, Depends(body_of)]


async def _limited(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> RequestRefusedError:
    detail = f"The body is larger than {MAX_BODY_BYTES >> 10} KiB."
    return RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)


def _refuse_foreign(request: Request) -> None:
    """Refuse a request that a page of another site makes a browser send with the cookie of the user.

    A page of an origin that Airflow's configuration allows may send a request with a token. Airflow then ignores the cookie.

    Raises:
        RequestRefusedError: the request comes from another site (403).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in ("same-origin", "none") or (_has_token(request) and origin in _allowed_origins()):
        return
    if site == "cross-site" or (origin is not None and urlsplit(origin).netloc not in _own_hosts(request)):
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "cross-site", "Pages of other sites may not change jobs.")


def _has_token(request: Request) -> bool:
    """Return whether the login of the request is a token, which a page of another site does not have."""
    return request.headers.get("authorization", "").lower().startswith("bearer ")


def _allowed_origins() -> Sequence[str]:
    return conf.getlist("api", "access_control_allow_origins", fallback=[]) or []


def _own_hosts(request: Request) -> set[str]:
    """Host names of this server. A page cannot make a browser send other host names."""
    hosts = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
    hosts.add(urlsplit(conf.get("api", "base_url", fallback="") or "").netloc)
    return {host for host in hosts if host}
