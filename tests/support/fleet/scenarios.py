"""Scenarios of the fleet simulator for tests."""

from __future__ import annotations

from tests.lab.fleet.scenario import PlannedJob, Scenario

QUIET = Scenario(
    seed=1,
    jobs=(
        PlannedJob(name="job-0", starts_at=0.0, bounds=(1, 3), connection=0, storage=0),
        PlannedJob(name="job-1", starts_at=1.0, bounds=(1, 2), connection=0, storage=0, records=2000),
    ),
    triggerers=1,
    workers=(8,),
    storages=("s3",),
    connections=1,
    events=(),
    faults_end_s=60.0,
    recovery_s=30.0,
)
