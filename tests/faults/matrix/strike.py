"""One cell: the job is led to a moment, the fault strikes, the world is put right, the job takes in what came meanwhile."""

from __future__ import annotations

from contextlib import ExitStack

from tests.faults.matrix.faults import Fault
from tests.faults.matrix.matrix_job import MatrixWorld
from tests.faults.matrix.moments import Moment, reached


def strike(world: MatrixWorld, fault: Fault, moment: Moment) -> None:
    """The fault at that moment; returns when the job has taken in what came with it."""
    with ExitStack() as broken, reached(world, moment, fault.there, holding=fault.holding):
        world.fault()
        broken.enter_context(fault.strikes(world))
    moment.go_on(world)
    world.recover()
