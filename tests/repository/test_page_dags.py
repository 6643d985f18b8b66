"""The DAG files in docs/sinks-and-sources.md are read as Airflow reads them. `tests/integration/spark/driver/test_tables.py` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from tests.support.page_dags import PageDag, page_dags
from tests.support.tables.jars import DELTA, ICEBERG

PAGE = "sinks-and-sources.md"


@pytest.fixture(params=page_dags(PAGE).values(), ids=lambda found: found.name)
def found(request: pytest.FixtureRequest) -> PageDag:
    return request.param


def test_airflow_reads_the_file(found: PageDag, tmp_path: Path) -> None:
    (tmp_path / f"{found.name}.py").write_text(found.code)
    bag = DagBag(tmp_path)
    assert not bag.import_errors
    task: Any
    (task,) = bag.dags[found.name].tasks
    assert task.job == found.name


def test_packages_of_tables_are_those_of_the_tests(found: PageDag) -> None:
    tested = {name for packages in (*DELTA.values(), *ICEBERG.values()) for name in packages.names}
    named = [package for package in found.parameters.get("packages", ()) if "kafka" not in package]
    assert set(named) <= tested
