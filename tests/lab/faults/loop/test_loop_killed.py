"""The process that runs the loop is killed with -9 at a point, and another one goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.faults.harness.job_under_fault import JobUnderFault, Outcome, frozen

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

FAULT = "loop killed (-9)"


def _go_on(job: JobUnderFault, record: Record, point: str, attempt: str = "1") -> None:
    """Another loop goes on from there; what came of it is noted."""
    loop = job.start_loop(attempt=attempt)
    job.recover()
    record(FAULT, point, job.finish(loop))


START = {
    "create:before:claim": "start: before the journal was claimed",
    "create:after:claim": "start: the journal was claimed",
    "create:before:SubmitDriver": "start: before the intent to submit was written",
    "link:before:SubmitDriver": "start: while the intent to submit was written",
    "link:after:SubmitDriver": "start: while the intent to submit was written, and was already in the journal",
    "create:after:SubmitDriver": "start: the intent to submit was written, and nothing was sent",
    "http:before:submit": "start: before the POST was sent",
    "http:sent:submit": "start: the POST was sent, and the master had not responded",
    "http:answered:submit": "start: the POST was accepted, and the response was not read",
    "create:before:submitted": "start: the response was read, and not written",
    "create:after:submitted": "start: the identifier of the driver was written",
    "create:before:Executing": "start: before the activation of the plan was written",
    "create:after:Executing": "start: the activation of the plan was written",
}


@pytest.mark.parametrize("point", START)
def test_start(job: JobUnderFault, record: Record, point: str) -> None:
    job.feed()
    job.wait_death(job.start_loop(point))
    _go_on(job, record, START[point])


RESCALE = {
    "create:before:Restarting": "rescale: before the decision was written",
    "create:after:Restarting": "rescale: the decision was written",
    "create:before:Deploying": "rescale: before the new plan was written",
    "create:after:Deploying": "rescale: the new plan was written",
}


@pytest.mark.parametrize("point", RESCALE)
def test_rescale(job: JobUnderFault, record: Record, point: str) -> None:
    _run_then_adopt(job)
    dying = job.start_loop(point)
    job.request_state(parallelism=(2, 2))
    job.wait_death(dying)
    loop = job.start_loop()
    job.recover()
    job.wait_for("two executors", lambda: (job.status() or None) and len(job.status().executors) == 2)  # type: ignore[union-attr]
    record(FAULT, RESCALE[point], job.finish(loop))


def _run_then_adopt(job: JobUnderFault) -> None:
    """The job runs without a loop."""
    loop = job.start_loop()
    job.run_well()
    loop.kill()
    loop.wait()


QUERY = {
    "create:before:Restarting": "failure of the query: before the decision was written",
    "create:after:Restarting": "failure of the query: the decision was written",
    "create:after:Deploying": "failure of the query: the plan was written again",
}


@pytest.mark.parametrize("point", QUERY)
def test_failure_of_the_query(job: JobUnderFault, record: Record, point: str) -> None:
    _run_then_adopt(job)
    dying = job.start_loop(point)
    job.put("poison.json", range(-1, 0))
    job.wait_for("the failure", lambda: dying.poll() is not None or job.is_in("Restarting"))
    job.put("poison.json", range(0))
    job.wait_death(dying)
    _go_on(job, record, QUERY[point])


KILL = {
    "create:before:KillDriver": "hanging driver: before the intent to kill was written",
    "create:after:KillDriver": "hanging driver: the intent to kill was written",
    "http:before:kill": "hanging driver: before the kill request was sent",
    "http:sent:kill": "hanging driver: the kill request was sent, and the master had not responded",
    "http:answered:kill": "hanging driver: the kill request was accepted, and the response was not read",
    "create:before:SubmitDriver": "hanging driver: before the intent to submit the next driver was written",
    "create:after:SubmitDriver": "hanging driver: the intent to submit the next driver was written",
    "http:answered:submit": "hanging driver: the next driver was accepted, and the response was not read",
}


@pytest.mark.parametrize("point", KILL)
def test_hanging_driver(job: JobUnderFault, record: Record, point: str) -> None:
    _run_then_adopt(job)
    with frozen(job.driver_processes()):
        job.wait_death(job.start_loop(point))
        loop = job.start_loop()
        job.recover()
    assert job.epoch() >= 2
    record(FAULT, KILL[point], job.finish(loop))


DEAD = {
    "create:before:Restarting": "dead driver: before the decision was written",
    "create:after:Restarting": "dead driver: the decision was written",
    "create:before:SubmitDriver": "dead driver: before the intent to submit the next driver was written",
    "link:before:SubmitDriver": "dead driver: while the intent to submit was written",
    "link:after:SubmitDriver": "dead driver: while the intent to submit was written, and was already in the journal",
    "create:after:SubmitDriver": "dead driver: the intent to submit the next driver was written",
    "http:before:submit": "dead driver: before the POST was sent",
    "http:sent:submit": "dead driver: the next submission was sent, and the master had not responded",
    "http:answered:submit": "dead driver: the next driver was accepted, and the response was not read",
    "create:before:submitted": "dead driver: the response was read, and not written",
    "create:after:submitted": "dead driver: the identifier of the next driver was written",
    "create:before:Executing": "dead driver: before the activation of the plan was written",
    "create:after:Executing": "dead driver: the activation of the plan was written",
}


@pytest.mark.parametrize("point", DEAD)
def test_dead_driver(job: JobUnderFault, record: Record, point: str) -> None:
    _run_then_adopt(job)
    dying = job.start_loop(point)
    job.cluster.kill_driver(job.driver())
    job.wait_death(dying)
    _go_on(job, record, DEAD[point])


END = {
    ("suspended", "create:before:StopWithSavepoint"): "suspend: before the request was written",
    ("suspended", "create:after:StopWithSavepoint"): "suspend: the request was written",
    ("suspended", "create:before:Finished"): "suspend: before the end of the job was written",
    ("suspended", "create:after:Finished"): "suspend: the end of the job was written",
    ("canceled", "create:before:Canceling"): "cancel: before the request was written",
    ("canceled", "create:after:Canceling"): "cancel: the request was written",
    ("canceled", "create:after:Finished"): "cancel: the end of the job was written",
}


@pytest.mark.parametrize(("desired_state", "point"), END)
def test_end(job: JobUnderFault, record: Record, desired_state: str, point: str) -> None:
    """Another attempt takes the job up where this one left it."""
    _run_then_adopt(job)
    dying = job.start_loop(point)
    job.request_state(desired_state)
    job.wait_death(dying)
    job.wait_exit(job.start_loop(), 0)
    assert job.is_in("Finished")
    job.request_state()
    _go_on(job, record, END[desired_state, point], attempt="2")


AGAIN = {
    "create:before:claim": "next attempt: before the journal was claimed",
    "create:after:claim": "next attempt: the journal was claimed",
    "create:before:again": "next attempt: before the first document of the new attempt was written",
    "create:after:again": "next attempt: the first document of the new attempt was written",
}


@pytest.mark.parametrize("point", AGAIN)
def test_next_attempt(job: JobUnderFault, record: Record, point: str) -> None:
    first = job.start_loop()
    job.run_well()
    job.request_state("suspended")
    job.wait_exit(first, 0)
    job.request_state()
    job.wait_death(job.start_loop(point, attempt="2"))
    _go_on(job, record, AGAIN[point], attempt="2")


@pytest.mark.parametrize("nth", [1, 2])
def test_compaction(job: JobUnderFault, record: Record, nth: int) -> None:
    dying = job.start_loop(f"compact:during:{nth}")
    job.feed()
    wide = False
    while dying.poll() is None:
        wide = not wide
        job.request_state(parallelism=(1, 2 if wide else 1))
        job.wait_for("the next document", lambda: dying.poll() is not None or job.is_in("Executing"))
        before = job.newest()
        job.wait_for("the next document", lambda before=before: dying.poll() is not None or job.newest() != before)  # type: ignore[misc]
    job.request_state()
    job.wait_death(dying)
    _go_on(job, record, f"compaction: document {nth} was removed")


def test_every_loop_at_its_second_document(job: JobUnderFault, record: Record) -> None:
    """No loop lives longer than to write two documents, from the start to the end; the last may do more."""
    job.fault()
    for number in range(30):
        dying = job.start_loop(f"create:{('before', 'after')[number % 2]}:number {2 + number % 2}")
        job.wait_for("death, or all rows", lambda dying=dying: dying.poll() is not None or job.is_well())  # type: ignore[misc]
        if job.is_well():
            break
    assert number > 1
    _go_on(job, record, "every loop at its second or third document, from the start on")
