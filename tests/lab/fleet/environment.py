"""The simulated environment of one scenario: storages, a cluster with drivers, Airflow with triggerers, and the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from airflow_adaptive._airflow.process import process_resources
from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._core.view import SUMMARY
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.autoscaling.advisor import policy_to_text
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from tests.lab.fleet.airflow.job_operator import JobTask
from tests.lab.fleet.airflow.simulated_airflow import SimulatedAirflow
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.airflow.triggerer import SimulatedTriggerer
from tests.lab.fleet.cluster import transport
from tests.lab.fleet.cluster.drivers import Drivers
from tests.lab.fleet.cluster.job_model import WorkloadShape
from tests.lab.fleet.cluster.masters import SimulatedMasters
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.history import History
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.observed_storage import ObservedStorage
from tests.lab.fleet.past import write_journal
from tests.lab.fleet.scenario import PlannedJob, Scenario
from tests.lab.fleet.seams import installed
from tests.lab.simulation.one_job import MEMORY_MB, small_job

BASES: Final[Mapping[str, tuple[str, str]]] = {
    "s3": ("s3://bucket/jobs", "s3a://bucket/jobs"),
    "gs": ("gs://bucket/jobs", "gs://bucket/jobs"),
    "file": ("file:///shared/jobs", "file:///shared/jobs"),
}
"""Protocol of a storage -> folder of the job directories, for Airflow and for Spark."""

OPTIONS: Final[Mapping[str, object]] = {
    "resource_wait_timeout": -1,
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "5 s",
    "deploy_timeout": "60 s",
    "stop_timeout": "20 s",
    "driver_heartbeat_timeout": "15 s",
    "driver_lease_timeout": "15 s",
    "local_recovery_timeout": "10 s",
    "trigger_lifetime": "100 s",
    "scale_up_controller": "tests.lab.fleet.controller.FleetController",
}
"""Options of every job: the limits are a few seconds, so that a short simulation contains many of them."""

POLICY: Final = policy_to_text(
    scheduled_policy(zone="UTC", windows=[window("even", 1, cron="*/2 * * * *", duration="1 min")], look_ahead=None)
)
"""Rescale policy of the jobs that have one: one slot in the even minutes, and the declared bounds in the other ones."""

POLL_INTERVAL_CONF: Final = "spark.airflow.adaptive.pollInterval"


class Environment:
    """Everything outside the product, and the processes that run the product.

    Attributes:
        scenario: the scenario.
        history: what has happened.
        storages: protocol -> storage.
        drivers: the drivers of all jobs.
        masters: the masters of the cluster.
        airflow: the Airflow deployment.
        jobs: name -> planned job.
        emptied: jobs whose state stores Airflow has emptied, with the times.
        marked_failed: jobs whose tasks a user has marked as failed -> when.
        orphaned: jobs of them whose trigger no triggerer ran at that time: Airflow does not notify the provider, and the driver continues.
        cleared: jobs whose tasks a user has cleared -> when.
        waiting: jobs for which a user has requested more slots than the cluster may have.
    """

    def __init__(self, scenario: Scenario) -> None:
        """Build the environment of a scenario. Nothing happens before the kernel runs."""
        self.scenario = scenario
        self.kernel = Kernel()
        self.entropy = Entropy(scenario.seed)
        self.history = History(self.kernel)
        self.jobs = {job.name: job for job in scenario.jobs}
        self.emptied: list[tuple[str, float]] = []
        self.marked_failed: dict[str, float] = {}
        self.orphaned: set[str] = set()
        self.cleared: dict[str, float] = {}
        self.waiting: set[str] = set()
        record = self.history.record
        storages = [ObservedStorage(self.kernel, self.entropy, record, kind) for kind in scenario.storages]
        self.storages = {storage.protocol: storage for storage in storages}
        self.drivers = Drivers(self.kernel, self.entropy, record, self._storage_of)
        self.masters = SimulatedMasters(
            self.kernel, self.entropy, record, self.drivers.cluster, hosts=("master-1", "master-2"), token="token-0"
        )
        self.airflow = SimulatedAirflow(self.kernel, self.entropy, record)
        self.publish_token()
        for cores in scenario.workers:
            self.drivers.cluster.add_worker(cores, cores * MEMORY_MB)
        for _ in range(scenario.triggerers):
            self.start_triggerer()
        for job in scenario.jobs:
            self.drivers.add_job(job.name, WorkloadShape(records=job.records, batch_s=job.batch_s, idle_s=job.batch_s))
            write_journal(self.storage(job.name).files, self.directory(job.name), self._spec(job), job.documents)
            self.kernel.at(job.starts_at, partial(self.airflow.scheduler.add, self._task(job)))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the product of this interpreter run in the environment."""
        with (
            installed(self.kernel, self.entropy),
            self.drivers.installed(),
            self.airflow.installed(*self.storages.values()),
            transport.installed(self.kernel, lambda host: self.masters),
            # The loops of a few jobs compete for reads, as the loops of a thousand jobs do with the real limit.
            patch.object(process_resources, "FILE_POLLS_PER_SECOND", max(2.0, len(self.jobs) / 5)),
        ):
            yield

    # ---- what faults and invariants need ----------------------------------------------------------------------------

    def start_triggerer(self) -> SimulatedTriggerer:
        """Start one more triggerer, whose clock drifts and is some time ahead."""
        name = f"triggerer-{len(self.airflow.triggerers) + 1}"
        random = self.entropy.random(f"clock of {name}")
        ahead, drift = timedelta(seconds=random.uniform(-1, 1)), random.uniform(-1e-4, 1e-4)
        return self.airflow.start_triggerer(SimulatedProcess(self.kernel, name, drift=drift, wall_offset=ahead))

    @property
    def triggerers(self) -> list[SimulatedTriggerer]:
        """The triggerers that have not been killed."""
        return [triggerer for triggerer in self.airflow.triggerers if triggerer.process.is_alive]

    def task_state(self, job: str) -> TaskState | None:
        """Return the state of the task of a job; None also before the DAG run."""
        task = self.airflow.scheduler.tasks.get(job)
        return None if task is None else self.airflow.scheduler.instance(task).state

    def has_loop(self, job: str) -> bool:
        """Return whether a triggerer runs the trigger of a job."""
        trigger_id = self.airflow.scheduler.instance(self.airflow.scheduler.tasks[job]).trigger_id
        return trigger_id is not None and any(triggerer.runs(trigger_id) for triggerer in self.triggerers)

    def summary(self, job: str) -> Mapping[str, Any]:
        """Return the published summary of a job; empty without one."""
        found: Mapping[str, Any] = self.airflow.api.database.asset_states[job_asset(job).name].get(SUMMARY) or {}
        return found

    def publish_token(self) -> None:
        """Write the current token of the masters into the connections."""
        fields: dict[str, Any] = {
            "conn_type": "spark",
            "host": "spark://master-1,master-2",
            "port": 7077,
            "password": self.masters.token,
        }
        for number in range(self.scenario.connections):
            timeout_s = 2 + number
            self.airflow.users.set_connection(
                f"spark-{number}", {**fields, "extra": json.dumps({"timeout": timeout_s})}
            )

    def storage(self, job: str) -> ObservedStorage:
        """Return the storage of a job."""
        return list(self.storages.values())[self.jobs[job].storage]

    def directory(self, job: str) -> str:
        """Return the path of a job directory in its storage."""
        return BASES[self.storage(job).protocol][0].split("://", 1)[1] + f"/{job}"

    def _storage_of(self, uri: str) -> ObservedStorage:
        protocol = uri.split("://", 1)[0]
        return self.storages["s3" if protocol == "s3a" else protocol]

    def _task(self, job: PlannedJob) -> JobTask:
        base, _ = BASES[self.storage(job.name).protocol]
        return JobTask(spec=self._spec(job), base=base, conn_id=f"spark-{job.connection}", retries=job.retries)

    def _spec(self, job: PlannedJob) -> JobSpec:
        _, folder = BASES[self.storage(job.name).protocol]
        poll_interval_s = self.scenario.poll_interval_s
        spec = small_job(
            job.name, job.bounds, {**OPTIONS, "poll_interval": f"{poll_interval_s:g} s", "standby": job.standby}
        )
        return replace(
            spec,
            directory=f"{folder}/{job.name}",
            conf={POLL_INTERVAL_CONF: str(poll_interval_s)},
            rescale_policy=POLICY if job.has_policy else None,
        )
