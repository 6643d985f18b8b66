"""When the credentials of an API client expire, for the message of an API server that refuses them without a reason."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from kubernetes_asyncio.client import Configuration


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of the lifetime of a credential.

    Attributes:
        credential: what expires.
        at: when it expires.
    """

    credential: str
    at: datetime


def expiry(configuration: Configuration) -> Expiry | None:
    """Return which credential of a configuration expires, and when; None if it cannot be read from the credentials."""
    token = str(configuration.api_key.get("BearerToken") or "").removeprefix("Bearer ")
    return _of_token(token) if token else _of_certificate(configuration.cert_file)


def _of_certificate(file: str | None) -> Expiry | None:
    if not file:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):
        return None
    return Expiry("client certificate", certificate.not_valid_after_utc)


def _of_token(token: str) -> Expiry | None:
    """Return the expiry of a JSON web token. Other tokens do not tell."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return Expiry("token", datetime.fromtimestamp(claims["exp"], UTC))
    except (ArithmeticError, LookupError, TypeError, ValueError, OSError):
        return None
