"""The process that runs the loop is killed with -9 at a point, and another one goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.harness.job_under_fault import FaultWorld, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

FAULT = "loop killed (-9)"


def _go_on(world: FaultWorld, record: Record, point: str, attempt: str = "1") -> None:
    """Another loop goes on from there; what came of it is noted."""
    loop = world.start_loop(attempt=attempt)
    world.recover()
    record(FAULT, point, world.finish(loop))


START = {
    "create:before:claim": "start: before the log was claimed",
    "create:after:claim": "start: the log was claimed",
    "create:before:SubmitDriver": "start: before the intent to submit was written",
    "link:before:SubmitDriver": "start: while it was written",
    "link:after:SubmitDriver": "start: while it was written, in the log already",
    "create:after:SubmitDriver": "start: the intent was written, nothing done",
    "http:before:submit": "start: before the POST was sent",
    "http:sent:submit": "start: the POST was sent, not answered",
    "http:answered:submit": "start: the POST was accepted, the answer not read",
    "create:before:submitted": "start: the answer was read, not written",
    "create:after:submitted": "start: the driver's name was written",
    "create:before:Executing": "start: before it was written that the plan is in force",
    "create:after:Executing": "start: it was written that the plan is in force",
}


@pytest.mark.parametrize("point", START)
def test_start(world: FaultWorld, record: Record, point: str) -> None:
    world.feed()
    world.wait_death(world.start_loop(point))
    _go_on(world, record, START[point])


RESCALE = {
    "create:before:Restarting": "rescale: before the decision was written",
    "create:after:Restarting": "rescale: the decision was written",
    "create:before:Deploying": "rescale: before the new plan was written",
    "create:after:Deploying": "rescale: the new plan was written",
}


@pytest.mark.parametrize("point", RESCALE)
def test_rescale(world: FaultWorld, record: Record, point: str) -> None:
    _run_then_adopt(world)
    dying = world.start_loop(point)
    world.ask(parallelism=(2, 2))
    world.wait_death(dying)
    loop = world.start_loop()
    world.recover()
    world.wait_for("two executors", lambda: (world.status() or None) and len(world.status().executors) == 2)  # type: ignore[union-attr]
    record(FAULT, RESCALE[point], world.finish(loop))


def _run_then_adopt(world: FaultWorld) -> None:
    """The job runs; nobody looks after it."""
    loop = world.start_loop()
    world.run_well()
    loop.kill()
    loop.wait()


QUERY = {
    "create:before:Restarting": "failure of the query: before the decision was written",
    "create:after:Restarting": "failure of the query: the decision was written",
    "create:after:Deploying": "failure of the query: the plan was written anew",
}


@pytest.mark.parametrize("point", QUERY)
def test_failure_of_the_query(world: FaultWorld, record: Record, point: str) -> None:
    _run_then_adopt(world)
    dying = world.start_loop(point)
    world.put("poison.json", range(-1, 0))
    world.wait_for("the failure", lambda: dying.poll() is not None or world.is_in("Restarting"))
    world.put("poison.json", range(0))
    world.wait_death(dying)
    _go_on(world, record, QUERY[point])


KILL = {
    "create:before:KillDriver": "hanging driver: before the intent to kill was written",
    "create:after:KillDriver": "hanging driver: the intent to kill was written",
    "http:before:kill": "hanging driver: before the kill was sent",
    "http:sent:kill": "hanging driver: the kill was sent, not answered",
    "http:answered:kill": "hanging driver: the kill was accepted, the answer not read",
    "create:before:SubmitDriver": "hanging driver: before the intent to submit the next was written",
    "create:after:SubmitDriver": "hanging driver: the intent to submit the next was written",
    "http:answered:submit": "hanging driver: the next was accepted, the answer not read",
}


@pytest.mark.parametrize("point", KILL)
def test_hanging_driver(world: FaultWorld, record: Record, point: str) -> None:
    _run_then_adopt(world)
    with frozen(world.driver_processes()):
        world.wait_death(world.start_loop(point))
        loop = world.start_loop()
        world.recover()
    assert world.epoch() >= 2
    record(FAULT, KILL[point], world.finish(loop))


DEAD = {
    "create:before:Restarting": "dead driver: before the decision was written",
    "create:after:Restarting": "dead driver: the decision was written",
    "create:before:SubmitDriver": "dead driver: before the intent to submit the next was written",
    "link:before:SubmitDriver": "dead driver: while it was written",
    "link:after:SubmitDriver": "dead driver: while it was written, in the log already",
    "create:after:SubmitDriver": "dead driver: the intent to submit the next was written",
    "http:before:submit": "dead driver: before the POST was sent",
    "http:sent:submit": "dead driver: the next was sent, not answered",
    "http:answered:submit": "dead driver: the next was accepted, the answer not read",
    "create:before:submitted": "dead driver: the answer was read, not written",
    "create:after:submitted": "dead driver: the next one's name was written",
    "create:before:Executing": "dead driver: before it was written that the plan is in force",
    "create:after:Executing": "dead driver: it was written that the plan is in force",
}


@pytest.mark.parametrize("point", DEAD)
def test_dead_driver(world: FaultWorld, record: Record, point: str) -> None:
    _run_then_adopt(world)
    dying = world.start_loop(point)
    world.cluster.kill_driver(world.driver())
    world.wait_death(dying)
    _go_on(world, record, DEAD[point])


END = {
    ("suspend", "create:before:StopWithSavepoint"): "suspend: before the wish was written",
    ("suspend", "create:after:StopWithSavepoint"): "suspend: the wish was written",
    ("suspend", "create:before:Finished"): "suspend: before the end was written",
    ("suspend", "create:after:Finished"): "suspend: the end was written",
    ("cancel", "create:before:Canceling"): "cancel: before the wish was written",
    ("cancel", "create:after:Canceling"): "cancel: the wish was written",
    ("cancel", "create:after:Finished"): "cancel: the end was written",
}


@pytest.mark.parametrize(("desired_state", "point"), END)
def test_end(world: FaultWorld, record: Record, desired_state: str, point: str) -> None:
    """Another attempt takes the job up where this one left it."""
    _run_then_adopt(world)
    dying = world.start_loop(point)
    world.ask(desired_state)
    world.wait_death(dying)
    world.wait_exit(world.start_loop(), 0)
    assert world.is_in("Finished")
    world.ask()
    _go_on(world, record, END[desired_state, point], attempt="2")


AGAIN = {
    "create:before:claim": "next attempt: before the log was claimed",
    "create:after:claim": "next attempt: the log was claimed",
    "create:before:again": "next attempt: before the new life was written",
    "create:after:again": "next attempt: the new life was written",
}


@pytest.mark.parametrize("point", AGAIN)
def test_next_attempt(world: FaultWorld, record: Record, point: str) -> None:
    first = world.start_loop()
    world.run_well()
    world.ask("suspend")
    world.wait_exit(first, 0)
    world.ask()
    world.wait_death(world.start_loop(point, attempt="2"))
    _go_on(world, record, AGAIN[point], attempt="2")


@pytest.mark.parametrize("nth", [1, 2])
def test_compaction(world: FaultWorld, record: Record, nth: int) -> None:
    dying = world.start_loop(f"compact:during:{nth}")
    world.feed()
    wide = False
    while dying.poll() is None:
        wide = not wide
        world.ask(parallelism=(1, 2 if wide else 1))
        world.wait_for("the next document", lambda: dying.poll() is not None or world.is_in("Executing"))
        before = world.newest()
        world.wait_for("the next document", lambda before=before: dying.poll() is not None or world.newest() != before)  # type: ignore[misc]
    world.ask()
    world.wait_death(dying)
    _go_on(world, record, f"compaction: document {nth} was removed")


def test_every_loop_at_its_second_document(world: FaultWorld, record: Record) -> None:
    """No loop lives longer than to write two documents, from the start to the end; the last may do more."""
    world.fault()
    for number in range(30):
        dying = world.start_loop(f"create:{('before', 'after')[number % 2]}:number {2 + number % 2}")
        world.wait_for("death, or all rows", lambda dying=dying: dying.poll() is not None or world.is_well())  # type: ignore[misc]
        if world.is_well():
            break
    assert number > 1
    _go_on(world, record, "every loop at its second or third document, from the start on")
