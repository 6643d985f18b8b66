"""What people should know of a driver reaches the decision that tells of its first plan."""

from __future__ import annotations

from airflow_adaptive.job.documents import DriverState, Status
from airflow_adaptive.runtime.observe import Memory, World, observe
from airflow_adaptive.runtime.spec import ExecutorShape
from airflow_adaptive.testing.scenario import Scenario

NOTE = "the script starts its queries itself"


def test_note_of_an_ordinary_script_is_told_with_its_first_plan():
    job = Scenario().given_deploying(1).when_slots(held=1)
    assert job.state.plan is not None
    version = job.state.plan.version
    status = Status(
        job="job",
        epoch=1,
        nonce="n",
        sequence=1,
        at="",
        state=DriverState.RUNNING,
        version=version,
        reads=(),
        note=NOTE,
    )
    memory = Memory(epoch=1, heard=job.now)
    for event in observe(job.state, World(status=status), memory, job.now, lambda: 0.5, ExecutorShape(cores=1)):
        job.when(event)
    job.then("Executing", reason=NOTE)
    assert job.state.driver is not None
    assert job.state.driver.reads == ()
