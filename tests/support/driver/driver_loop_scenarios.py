"""Drivers in states from which several tests of the driver loop start."""

from __future__ import annotations

from airflow_adaptive._core.protocol.documents import Action
from tests.support.driver.simulated_driver import SimulatedDriver, directive, plan


def running(executors: int = 1, version: int = 1) -> SimulatedDriver:
    """A driver in which the driver starts on that plan at its first turn."""
    return SimulatedDriver(newest_directive=directive(Action.RUN, version, plan(executors)), executor_count=executors)


def break_down() -> None:
    raise ZeroDivisionError
