"""A prepared driver takes over from one that is killed or that a deployment replaces, and a driver that cannot be prepared stops no job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.faults.harness.deployment import SCRIPT
from tests.lab.faults.harness.job_under_fault import JobUnderFault, Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


@pytest.mark.parametrize("mode", ["driver", "driver+executors"])
def test_driver_that_is_killed_beside_a_standby(job: JobUnderFault, record: Record, mode: str) -> None:
    job.changes = {"options": {"standby": mode}}
    loop = job.start_loop()
    job.run_well()
    epoch = job.wait_for("a standby", job.standby_epoch)
    for process in job.driver_processes():
        process.kill()
    job.fault()
    job.wait_for("the standby to take over", lambda: job.epoch() == epoch)
    job.recover()
    job.wait_for("another standby", lambda: job.standby_epoch() > epoch)
    record("driver killed (-9)", f"both, with standby={mode}", job.finish(loop))


def test_standby_that_is_killed(job: JobUnderFault, record: Record) -> None:
    job.changes = {"options": {"standby": "driver"}}
    loop = job.start_loop()
    job.run_well()
    epoch = job.wait_for("a standby", job.standby_epoch)
    for process in job.journaled_processes(of_standby=True):
        process.kill()
    job.fault()
    job.wait_for("another standby", lambda: job.standby_epoch() > epoch)
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
