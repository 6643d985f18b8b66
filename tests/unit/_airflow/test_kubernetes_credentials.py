"""When credentials expire."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes_asyncio.client import Configuration

from airflow_adaptive._airflow.kubernetes_api import Expiry, expiry

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def configuration(token: str = "", certificate: Path | None = None) -> Configuration:
    made = Configuration()
    made.api_key = {"BearerToken": f"Bearer {token}"} if token else {}
    made.cert_file = None if certificate is None else str(certificate)
    return made


def web_token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def test_the_expiry_of_a_web_token_is_known() -> None:
    assert expiry(configuration(web_token({"exp": AT.timestamp()}))) == Expiry("token", AT)


@pytest.mark.parametrize(
    "token", ["opaque", "a.b.c", web_token({}), web_token([]), web_token({"exp": "x"}), web_token({"exp": 1e30})]
)
def test_the_expiry_of_other_tokens_is_unknown(token: str) -> None:
    assert expiry(configuration(token)) is None


def test_the_expiry_of_a_client_certificate_is_known(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, AT - timedelta(days=1), AT)
    file = tmp_path / "me.crt"
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    assert expiry(configuration(certificate=file)) == Expiry("client certificate", AT)


def test_a_file_without_a_certificate_has_no_expiry(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no certificate")
    assert expiry(configuration(certificate=tmp_path / "other")) is None
    assert expiry(configuration(certificate=tmp_path / "missing")) is None
    assert expiry(configuration()) is None
