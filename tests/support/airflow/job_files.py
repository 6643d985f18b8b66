"""A job whose directory is on this machine, and whose driver runs on a fake master."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._airflow.store.task_xcoms import BASE
from airflow_adaptive._core.ports import DriverLog, DriverSubmission
from airflow_adaptive._core.protocol.documents import encode_document
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from tests.lab.contracts.job_directory import journal_document
from tests.lab.fakes.cluster import FakeScript
from tests.lab.fakes.coroutines import result_of
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import JOB, place, report
from tests.support.servers.fake_master import FakeMaster

SCRIPT = "file:///jobs/departures.py"
LOG = DriverLog(stdout="one\ntwo\nthree\n", stderr="WARN Spark\n")


def master_with_log(log: DriverLog = LOG) -> FakeMaster:
    """A master with one worker, on which the script of the job prints this log."""
    master = FakeMaster({SCRIPT: FakeScript(log=log)})
    master.cluster.add_worker(cores=4, memory_mb=8192)
    return master


def place_with_files(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, base: Path, master: FakeMaster, *lives: Scenario
) -> int:
    """Place a job with a journal of these moments, the last of which is published. The driver of the first one runs on the master."""
    driver = result_of(master.cluster.submit(DriverSubmission(name=JOB, epoch=1, nonce="n", script=SCRIPT)))
    extra = {"ui-port": master.port, "rest-port": master.port}
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_ON_TEST", json.dumps(connection))
    return place_files(airflow_app, base, driver, ConnectionIds("on_test"), *lives)


def place_files(airflow_app: AirflowApp, base: Path, driver: str, used: ConnectionIds, *lives: Scenario) -> int:
    """Place a job with a journal of these moments, the last of which is published. All have this driver, of the cluster of these connections."""
    with ThreadPoolExecutor(1) as thread:  # Playwright runs an event loop in the thread of the test.
        thread.submit(asyncio.run, _write(base, driver, used, [life.state for life in lives])).result()
    return place(airflow_app, lives[-1], desired_state={"value": "suspended"}, **{BASE: f"file://{base}"})


async def _write(base: Path, driver: str, used: ConnectionIds, states: list[SchedulerState]) -> None:
    directory = FsspecJobDirectory(Storage.at(str(base)), JOB)
    await directory.create_file("checkpoints/q/offsets/0", b"{}")
    await directory.claim("flights/stream", connections=asdict(used))
    for number, state in enumerate(states, 1):
        known = replace(state, driver=state.driver and replace(state.driver, submission_id=driver))
        assert await directory.create(replace(journal_document(number, job=JOB), scheduler=to_json(known)))
    await directory.create_file("status.json", encode_document(report()))
