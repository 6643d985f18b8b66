"""Set-up of the unit tests that takes long for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest

from airflow_adaptive.local.demo.replay import Flight, flights


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clients trust one certificate authority, because each client reads all of them, which takes 100 ms."""
    file = tmp_path_factory.mktemp("authorities") / "authority.pem"
    certificate, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file.write_text(certificate + end)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(file))
        patched.setattr(certifi, "where", lambda: str(file))
        yield


@pytest.fixture(scope="session")
def all_flights() -> list[Flight]:
    """The flights of the year."""
    return list(flights())
