"""Airflow is upgraded to a version with a newer document format, while drivers of the older version run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_adaptive.job.protocol import codec
from airflow_adaptive.runtime.loop import RunLimits
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.simulation.one_job import Simulation

OLD, NEW = (1,), (1, 2)


def formats(small: Simulation) -> list[int]:
    """Formats of the journal documents, oldest first."""
    return [codec.decode_journal(data).format for _, data in sorted(small.channel.journal.items())]


def run_until(small: Simulation, seconds: float) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=seconds)))


def kill_driver(small: Simulation) -> None:
    (driver,) = small.cluster.submissions
    small.cluster.kill_driver(driver)


@pytest.fixture
def upgraded(small: Simulation, monkeypatch: pytest.MonkeyPatch) -> Simulation:
    """A job whose driver is of the old version, and whose next loop is of the new version."""
    small.drivers.formats = OLD
    run_until(small, 30)
    small.drivers.formats = NEW
    monkeypatch.setattr(codec, "FORMATS", NEW)
    return small


def test_loop_of_a_newer_version_writes_the_format_that_its_driver_reads(upgraded: Simulation) -> None:
    """The loop of the old version starts a driver, Airflow is upgraded, and a worker joins: the driver must continue."""
    before = len(formats(upgraded))
    upgraded.clock.at(40, lambda: upgraded.cluster.add_worker(cores=2, memory_mb=1024))
    run_until(upgraded, 120)
    assert set(formats(upgraded)[before:]) == {1}
    assert {epoch for epoch, _, _ in upgraded.drivers.started} == {1}
    assert [parallelism["job"] for _, _, parallelism in upgraded.drivers.started][-1] > 1


def test_loop_writes_the_newer_format_as_soon_as_a_driver_reports_that_it_reads_it(upgraded: Simulation) -> None:
    """The driver of the old version is killed, so the next driver is of the new version."""
    upgraded.clock.at(40, lambda: kill_driver(upgraded))
    upgraded.clock.at(100, lambda: upgraded.cluster.add_worker(cores=2, memory_mb=1024))
    run_until(upgraded, 160)
    assert [epoch for epoch, _, _ in upgraded.drivers.started][-1] == 2
    assert formats(upgraded)[-1] == 2
    first_of_new_driver = next(
        codec.decode_journal(data)
        for _, data in sorted(upgraded.channel.journal.items())
        if codec.decode_journal(data).directive.epoch == 2
    )
    assert first_of_new_driver.format == 1, "the new driver may be of any version before its first status"
