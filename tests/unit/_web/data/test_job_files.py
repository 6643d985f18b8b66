"""The driver's log and the checkpoints of a job are read and set aside through the connections in its directory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._core.ports import DriverLog
from airflow_adaptive._web.data.errors import RequestRefusedError
from airflow_adaptive._web.data.job_files import driver_output, set_checkpoints_aside
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_job, reading
from airflow_adaptive._web.data.published_state import PublishedState, read_published
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.job_files import master_with_log, place_files, place_with_files
from tests.support.airflow.published_documents import JOB, executing, scenario, suspended
from tests.support.kubernetes.client.connected import client_of, submission
from tests.support.kubernetes.client.fake_api import FakeApi
from tests.support.servers.fake_master import FakeMaster


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    with master_with_log() as master:
        yield master


def known_job() -> tuple[Job, PublishedState]:
    with reading() as session:
        job = find_job(JOB, session)
        assert job is not None
        return job, read_published(job, session)


@pytest.mark.parametrize("lives", [[executing()], [executing(), suspended()]])
def test_last_lines_of_the_newest_driver_are_returned_also_after_its_end(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: FakeMaster, lives: list[Scenario]
) -> None:
    place_with_files(airflow_app, monkeypatch, tmp_path, master, *lives)
    found = driver_output(*known_job(), lines=2)
    assert (found.stdout, found.stderr, found.waits) == (["two", "three"], ["WARN Spark"], "")
    assert found.submission_id in master.cluster.submissions


@pytest.mark.parametrize(
    ("fault", "kind", "detail"),
    [
        ("no directory", "no-directory", "The directory of job 'departures' is unknown. Run its DAG first."),
        ("no driver", "no-driver", "Job 'departures' has no driver, and its journal names no earlier one."),
        ("no output", "unknown-log", "it has written nothing yet, or its output was removed"),
        ("no connections", "unreachable", "does not name the connections of the job: run its DAG again"),
        (
            "no master",
            "unreachable",
            "is unknown, as seen from here: no master of spark://127.0.0.1:7077 accepts requests",
        ),
    ],
)
def test_log_that_cannot_be_read_is_unknown_for_a_reason(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str, kind: str, detail: str
) -> None:
    with master_with_log(*([DriverLog()] if fault == "no output" else [])) as master:
        life = scenario() if fault == "no driver" else executing()
        asset = place_with_files(airflow_app, monkeypatch, tmp_path, master, life)
        if fault == "no directory":
            airflow_app.show(asset, {"job_directory": {}})
        if fault == "no connections":
            (tmp_path / JOB / "owners" / "0000000001.json").unlink()
        if fault == "no master":
            master.__exit__()
        with pytest.raises(RequestRefusedError, match=".") as raised:
            driver_output(*known_job(), lines=2)
    assert (raised.value.kind, detail in raised.value.detail) == (kind, True), raised.value.detail


@pytest.mark.parametrize(
    ("written", "outcome"), [("one\ntwo\nthree", "two three"), (None, "its pod does not exist any more")]
)
def test_log_of_a_pod_is_read_through_the_connections_until_the_pod_is_gone(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str | None, outcome: str
) -> None:
    async def found(server: FakeApi) -> str:
        driver = "departures-1-n@uid-9"
        if written is not None:
            async with client_of(server) as client:
                driver = await client.submit(submission())
            log = web.Response(text=written)
            server.answer = lambda request: log if request.path.endswith("/log") else None
        host = (await server.client()).configuration.host
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": {"server": host}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        spark = {"conn_type": "spark", "host": f"k8s://{host}", "extra": {"namespace": "team-a"}}
        account = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(kubeconfig)}}
        monkeypatch.setenv("AIRFLOW_CONN_ON_TEST", json.dumps(spark))
        monkeypatch.setenv("AIRFLOW_CONN_ACCOUNT", json.dumps(account))
        place_files(airflow_app, tmp_path, driver, ConnectionIds("on_test", kubernetes="account"), executing())
        try:
            return " ".join((await asyncio.to_thread(driver_output, *known_job(), lines=2)).stdout)
        except RequestRefusedError as error:
            return error.detail

    async def run() -> str:
        async with FakeApi().running() as server:
            return await found(server)

    assert outcome in asyncio.run(run())


def test_checkpoints_of_a_job_that_has_ended_get_another_name(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: FakeMaster
) -> None:
    place_with_files(airflow_app, monkeypatch, tmp_path, master, suspended())
    uri = set_checkpoints_aside(*known_job())
    assert not (tmp_path / JOB / "checkpoints").exists()
    assert Path(uri.removeprefix("file://"), "q", "offsets", "0").read_bytes() == b"{}"
    with pytest.raises(RequestRefusedError, match="has no checkpoint in file://"):
        set_checkpoints_aside(*known_job())


def test_checkpoints_stay_while_the_journal_names_a_driver(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: FakeMaster
) -> None:
    place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
    with pytest.raises(RequestRefusedError, match="A driver of job 'departures' may run, according to its journal"):
        set_checkpoints_aside(*known_job())
    assert (tmp_path / JOB / "checkpoints").exists()
