"""Fixtures of the tests in this directory."""

import pytest

from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import QUICK


@pytest.fixture
def small() -> Simulation:
    """A cluster with room for the driver and one slot."""
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    return simulation
