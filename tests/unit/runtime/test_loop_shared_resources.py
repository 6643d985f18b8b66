"""Loops that share the resources of one process: clocks that differ, masters that answer slowly, and many jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive.testing.simulation.several_jobs import Competition

HOUR = timedelta(hours=1)

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "5 s",
    "max_trigger_delay": "3 s",
    "slot_idle_timeout": "2 s",
    "local_recovery_timeout": "10 s",
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("ahead", [timedelta(seconds=3), HOUR])
def test_loop_detects_a_failed_query_while_the_clock_of_another_loop_is_ahead(ahead: timedelta) -> None:
    """The wall clock steps back between the starts of two loops, both jobs are idle, and the query of the second job fails."""
    simulation = Competition()
    simulation.add_worker(8)
    simulation.add_job("first", (1, 1), clock_ahead=ahead, **QUICK)
    second = simulation.add_job("second", (1, 1), **QUICK)
    simulation.at(60, second.drivers.fail_query)
    simulation.run(80)
    assert second.path[:4] == ["WaitingForResources", "Deploying", "Executing", "Restarting"]
