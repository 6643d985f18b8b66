"""The SQL statements of the plugin can be written in the dialects of all databases of Airflow. Airflow on MySQL is not tested."""

from __future__ import annotations

import pytest

from tests.support.airflow.airflow_app import AirflowApp
from tests.support.databases.statements import own_statements, places
from tests.support.databases.tour import execute_every_statement

MINIMUM = 10
"""Number of statements below which the search for statements is broken."""


def test_every_statement_compiles_for_mysql_and_postgresql(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow import settings  # noqa: PLC0415
    from sqlalchemy.dialects import mysql, postgresql  # noqa: PLC0415

    with own_statements(settings.engine) as found:
        execute_every_statement(airflow_app, monkeypatch)
    assert found.keys() == {place for place in places() if place.is_own}
    assert len(found) >= MINIMUM
    for statement in found.values():
        for dialect in (mysql.dialect(), postgresql.dialect()):
            assert str(statement.compile(dialect=dialect))
