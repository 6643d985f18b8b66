"""Jobs that ran before the simulation."""

from __future__ import annotations

from tests.lab.fleet.scenario import PlannedJob, Scenario
from tests.lab.fleet.simulation import simulate


def test_job_continues_the_journal_that_exists_before_the_simulation():
    job = PlannedJob(name="job-0", starts_at=0.0, bounds=(1, 3), connection=0, storage=0, documents=40)
    scenario = Scenario(
        seed=1,
        jobs=(job,),
        triggerers=1,
        workers=(8,),
        storages=("s3",),
        connections=1,
        events=(),
        faults_end_s=30.0,
        recovery_s=20.0,
    )
    simulated = simulate(scenario)
    created = [line for line in simulated.history if "job-0/journal/" in line and "created" in line]
    assert "/0000000041.json" in created[0]
    assert simulated.outcome.invariant == ""
    assert any("job-0: batch 3 committed" in line for line in simulated.history)
