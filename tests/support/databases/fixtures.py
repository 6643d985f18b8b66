"""Selects the database of Airflow: SQLite, or a real server that the tests start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.support.databases.postgresql import PostgresqlServer
    from tests.support.databases.redis_server import RedisServer

SQLITE: Final = "sqlite"

POSTGRESQL: Final = "postgresql"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the database."""
    description = "database of the API server's app; the tests start the server of the database"
    parser.addoption("--database", choices=(SQLITE, POSTGRESQL), default=SQLITE, help=description)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server for all tests of the session. Imported late: few tests need SQLAlchemy."""
    from tests.support.databases.postgresql import MissingProgramError, running_postgresql  # noqa: PLC0415

    try:
        with running_postgresql() as server:
            yield server
    except MissingProgramError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis server for all tests of the session."""
    from tests.support.databases.postgresql import MissingProgramError  # noqa: PLC0415
    from tests.support.databases.redis_server import running_redis  # noqa: PLC0415

    try:
        with running_redis() as server:
            yield server
    except MissingProgramError as error:
        pytest.fail(str(error), pytrace=False)
