"""A job whose triggerers are upgraded to a version with a newer document format, one after the other, and go back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run
from tests.integration.databases.test_outages import API, rows
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow
from tests.support.repository import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

JOB = "upgraded"

TRIGGERERS = {"triggerer-1", "triggerer-2"}

NEWER = dedent(
    """
    from pathlib import Path
    from airflow_adaptive._core.protocol import documents

    documents.FORMATS = (1, 2)

    from airflow_adaptive._core.protocol.documents import FORMATS as read
    from airflow_adaptive._engine.journal.step_document import FORMATS as written

    Path(__file__).with_name("formats").write_text(f"{read} {written}")
    """
)
"""The newer version: the current version with another document format."""


@pytest.fixture
def newer(tmp_path: Path) -> Mapping[str, str]:
    """Environment variables of a process of the newer version. Python imports the module `sitecustomize` when it starts."""
    (tmp_path / "sitecustomize.py").write_text(NEWER)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


def test_job_continues_while_both_triggerers_are_upgraded_and_go_back(
    airflow: ReplicatedAirflow,
    playground: Path,
    spark_cluster: LocalCluster,
    newer: Mapping[str, str],
    tmp_path: Path,
) -> None:
    spark_cluster.add_worker(cores=3, memory_mb=1536)
    run, folder = Run(airflow, playground, JOB), playground / JOB
    run.until_executing(2)
    driver = run.status().submission_id
    for version, parallelism in ((newer, 1), ({}, 2)):
        replace_triggerers(airflow, run, version)
        airflow.api._request("PUT", f"{API}/{JOB}/resource-requirements", {"job": bounds(1, parallelism)})
        run.until_executing(parallelism)
        (folder / "input" / f"{parallelism}.txt").write_text("four\nfive\n")
    assert (tmp_path / "formats").read_text() == "(1, 2) (1, 2)"

    wait_until(lambda: rows(folder) == 7, TIMEOUT_S, "the rows of all versions")
    airflow.api._request("POST", f"{API}/{JOB}/suspend", {})
    run.until_task("success")
    assert (run.status().submission_id, run.status().epoch) == (driver, 1)
    assert rows(folder) == 7


def replace_triggerers(airflow: ReplicatedAirflow, run: Run, version: Mapping[str, str]) -> None:
    """Install another version in the triggerer without the loop, and then in the other one, whose loop moves."""
    owner, loop = airflow.trigger_owner(), run.owner()
    assert owner in TRIGGERERS
    (other,) = TRIGGERERS - {owner}
    airflow.upgrade_replica(other, version)
    airflow.upgrade_replica(owner, version)
    wait_until(lambda: run.owner() != loop, TIMEOUT_S, "the loop in the other version")
