"""A prepared driver takes over from one that is killed or that a deployment replaces, and a driver that cannot be prepared stops no job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus, decode_status
from tests.lab.faults.harness.deployment import SCRIPT
from tests.lab.faults.harness.job_under_fault import JobUnderFault, Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


def standby_epoch(job: JobUnderFault) -> int:
    """The epoch of the prepared standby, 0 without one."""
    newest = job.newest()
    standby = None if newest is None else newest.scheduler["standby"]
    return standby["driver"]["epoch"] if standby and standby["is_prepared"] and standby["driver"] else 0


def standby_status(job: JobUnderFault) -> DriverStatus:
    return decode_status((job.directory / "standby.json").read_bytes())


@pytest.mark.parametrize("mode", ["driver", "driver+executors"])
def test_driver_that_is_killed_beside_a_standby(job: JobUnderFault, record: Record, mode: str) -> None:
    job.changes = {"options": {"standby": mode}}
    loop = job.start_loop()
    job.run_well()
    epoch = job.wait_for("a standby", lambda: standby_epoch(job))
    for process in job.driver_processes():
        process.kill()
    job.fault()
    job.wait_for("the standby to take over", lambda: job.epoch() == epoch)
    job.recover()
    job.wait_for("another standby", lambda: standby_epoch(job) > epoch)
    record("driver killed (-9)", f"both, with standby={mode}", job.finish(loop))


def test_standby_that_is_killed(job: JobUnderFault, record: Record) -> None:
    job.changes = {"options": {"standby": "driver"}}
    loop = job.start_loop()
    job.run_well()
    epoch = job.wait_for("a standby", lambda: standby_epoch(job))
    for process in job.cluster._daemons.working_in(standby_status(job).submission_id or ""):
        process.kill()
    job.fault()
    job.wait_for("another standby", lambda: standby_epoch(job) > epoch)
    job.recover()
    assert job.epoch() == 1
    record("standby killed (-9)", "both", job.finish(loop))


def test_deployment_that_is_prepared(job: JobUnderFault, record: Record) -> None:
    job.start_loop()
    job.run_well()
    job.changes = {"conf": {"spark.deployed.by": "2"}}
    job.fault()
    loop = job.start_loop(attempt="2")
    job.wait_for("the driver of the deployment", lambda: job.epoch() == 2)
    job.recover()
    assert job.logged("the prepared driver takes over")
    record("deployment", "prepared beside the running driver", job.finish(loop))


@pytest.mark.parametrize("script", ["import missing_module", "raise SystemExit(3)", "import time; time.sleep(10_000)"])
def test_deployment_that_cannot_be_prepared(job: JobUnderFault, record: Record, tmp_path: Path, script: str) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(script)
    job.start_loop()
    job.run_well()
    job.changes = {"script": str(broken), "options": {"deploy_timeout": "40 s"}}
    job.fault()
    loop = job.start_loop(attempt="2")
    job.wait_for("the report", lambda: job.logged("could not be prepared"))
    job.recover()
    assert job.epoch() == 1
    record("deployment that is broken", script, job.finish(loop))


def test_deployment_without_the_state_operator_of_the_checkpoint(
    job: JobUnderFault, record: Record, tmp_path: Path
) -> None:
    rows = '.json(f"{ROOT}/in")'
    stateful = tmp_path / "stateful.py"
    stateful.write_text(SCRIPT.read_text().replace(rows, f'{rows}.dropDuplicates(["id"])'))
    job.changes = {"script": str(stateful)}
    job.start_loop()
    job.run_well()
    job.changes = {"options": {"deploy_timeout": "10 min"}}
    job.fault()
    loop = job.start_loop(attempt="2")
    job.wait_for("the refusal", lambda: job.logged("the state belongs to another query, of dedupe"))
    job.recover()
    assert job.epoch() == 1
    record("deployment that is broken", "without a state operator of the checkpoint", job.finish(loop))
