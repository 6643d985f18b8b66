"""The slots of a standby: from the demand of a job and its capacity share to what the scheduler does with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import MIB, ClusterSnapshot, Resources, Worker
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, ExecutorReport
from airflow_adaptive._core.requirements.resolution import DECLARED, Resolution
from airflow_adaptive._core.scheduler.events import DriverSubmitted, MoveAnnounced
from airflow_adaptive._core.scheduler.standby import holds_executors
from airflow_adaptive._core.scheduler.steps import SubmitDriver
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand, capacity_shares, slot_demand
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.observed_events import derive_events
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from tests.lab.scenario import Scenario

AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}
EXECUTOR, DRIVER = ExecutorShape(cores=1, memory_mb=512), DriverShape(cores=1, memory_mb=512)
PLENTY = 65536 * MIB


class Cluster:
    """A cluster with a job on two slots, which has committed a batch. Each driver has a core, and each executor, too.

    The driver is on a full worker, and so are its executors but for `elsewhere`. All other cores are those of another worker.
    """

    def __init__(self, cores: int, upper: int = 2, elsewhere: int = 0, **options: Any) -> None:
        self.job = Scenario(upper=upper, **{**AT_ONCE, **options}).given_executing(2)
        self.cores = cores
        self.places = {str(it): "other" if it < elsewhere else "full" for it in range(9)}
        self.is_leaving = False
        self.granted = {1: 2}
        self.others: list[SlotDemand] = []
        self.register(1).observe().job.when_committed()
        self.observe()

    def register(self, epoch: int, granted: int = 2) -> Cluster:
        """The driver of an epoch has an application with so many executors."""
        self.granted[epoch] = granted
        ids = (f"driver-{epoch}", f"app-{epoch}")
        self.job.when(DriverSubmitted(at=self.job.now, epoch=epoch, submission_id=ids[0], application_id=ids[1]))
        return self

    def observe(self) -> Cluster:
        """The loop observes the cluster twice: the share of the first poll follows from the state before it."""
        for _ in range(2):
            for event in derive_events(*self._observed()):
                self.job.when(event)
        return self

    def _observed(self) -> tuple[Any, ...]:
        job, state = self.job, self.job.state
        spec = JobSpec(
            graph=state.job,
            options=state.options,
            script="s.py",
            py_files=(),
            directory="d",
            executor=EXECUTOR,
            driver=DRIVER,
        )
        free = Resources(1000 * (self.cores - len(self.granted) - sum(self.granted.values())), PLENTY)
        total, leaves = Resources(1000 * self.cores, PLENTY), self.is_leaving
        full = Worker(
            worker_id="full", address="full", total=total, free=Resources(), accepts=lambda placement: not leaves
        )
        cluster = ClusterSnapshot(
            workers=(full, Worker(worker_id="other", address="other", total=total, free=free)),
            granted={f"app-{epoch}": number for epoch, number in self.granted.items()},
            executor_workers={"app-1": self.places, "app-2": dict.fromkeys("01", "other")},
        )
        demands = {it.job: it for it in (slot_demand(spec, state, job.now), *self.others)}
        observation = JobObservation(
            cluster=cluster,
            share=capacity_shares(demands, cluster)[state.job.job],
            status=self._status(1),
            standby_status=self._status(2) if 2 in self.granted else None,
        )
        heartbeat = DriverHeartbeat(epoch=1, received_at=job.now, sequence=1)
        return (
            state,
            observation,
            Resolution(requirements=state.requirements, source=DECLARED),
            heartbeat,
            job.now,
            EXECUTOR,
        )

    def _status(self, epoch: int) -> DriverStatus:
        version = 0 if self.job.state.plan is None else self.job.state.plan.version
        return DriverStatus(
            job="job",
            epoch=epoch,
            nonce="n",
            sequence=1,
            at="",
            state=DriverState.STARTING,
            version=version,
            submission_id=f"driver-{epoch}",
            application_id=f"app-{epoch}",
            executors=tuple(ExecutorReport(executor_id=str(it), cores=1) for it in range(self.granted[epoch])),
        )

    def announce(self) -> Cluster:
        """The driver will have to leave its machine."""
        self.is_leaving = True
        self.job.when(MoveAnnounced(at=self.job.now, epoch=1, reason="its node was cordoned"))
        return self.observe()

    def expect(self, state: str, reason: str = "") -> Cluster:
        """The job is in a state, and a decision since its start gives the reason."""
        assert self.job.state.name == state
        assert any(reason in it for it in self.job.reasons)
        return self

    @property
    def requested(self) -> list[int]:
        """Slots that each standby has requested."""
        commands = [command for step in self.job.steps for command in step.commands]
        return [it.slots for it in commands if isinstance(it, SubmitDriver) and it.is_standby]


@pytest.mark.parametrize(
    ("mode", "cores", "slots"),
    [("driver", 128, 1), ("driver+executors", 128, 2), ("driver+executors", 5, 1), ("driver", 4, 0), ("driver", 3, 0)],
)
def test_standby_of_a_job_at_its_upper_bounds_gets_the_free_slots(mode: str, cores: int, slots: int) -> None:
    assert Cluster(cores, standby=mode).requested == [slots]


def test_new_deployment_of_a_job_at_its_upper_bounds_is_prepared_with_executors() -> None:
    cluster = Cluster(128)
    cluster.job.when_redeployed("new")
    assert cluster.requested == []
    assert cluster.observe().requested == [2]


def test_driver_of_a_job_at_its_upper_bounds_moves() -> None:
    cluster = Cluster(6).announce()
    assert cluster.requested == [2]
    cluster.register(2).observe().job.when_prepared()
    cluster.expect("Restarting", "the prepared driver takes over")


@pytest.mark.parametrize(("cores", "upper", "elsewhere"), [(5, 2, 0), (5, 3, 0), (4, 2, 1), (3, 2, 2), (3, 9, 2)])
def test_driver_stays_where_the_plan_has_no_room_beside_it(cores: int, upper: int, elsewhere: int) -> None:
    assert Cluster(cores, upper, elsewhere, scaling_interval_min=600).announce().requested == []


@pytest.mark.parametrize(
    ("cores", "upper", "elsewhere", "slots"), [(4, 2, 2, 0), (5, 2, 2, 1), (5, 2, 1, 1), (4, 9, 2, 0), (6, 9, 2, 2)]
)
def test_driver_moves_where_one_more_driver_fits_and_gives_its_executors_back(
    cores: int, upper: int, elsewhere: int, slots: int
) -> None:
    cluster = Cluster(cores, upper, elsewhere, scaling_interval_min=600).announce()
    assert cluster.requested == [slots]
    cluster.register(2, granted=slots).observe().job.when_prepared()
    cluster.expect("Restarting", "the prepared driver takes over")


def test_driver_moves_to_slots_that_the_job_may_grow_by() -> None:
    assert Cluster(6, upper=3, scaling_interval_min=600).announce().requested == [2]


def test_driver_stays_if_others_take_the_slots_of_its_standby_until_there_are_more() -> None:
    cluster = Cluster(6).announce()
    cluster.cores = 4
    cluster.register(2, granted=0).observe().job.when_prepared()
    cluster.observe().expect("Executing").job.when_committed()
    assert not holds_executors(cluster.job.state)
    cluster.cores = 6
    cluster.observe().expect("Restarting", "the prepared driver takes over")


def test_job_that_waits_for_its_minimum_lets_no_standby_start_on_its_slots() -> None:
    cluster = Cluster(6)
    waits = SlotDemand(job="other", minimum=3, maximum=3, age=timedelta(0), growth_block_timeout=timedelta(minutes=5))
    cluster.others = [waits]
    assert cluster.announce().requested == []


def test_standby_leaves_the_slots_to_the_growth_of_its_job() -> None:
    cluster = Cluster(6, upper=4, standby="driver+executors", scaling_interval_min=600)
    assert cluster.requested == [0]
    assert cluster.job.state.available_slots == 4


def with_standby(**options: Any) -> Cluster:
    """A job at its upper bounds whose prepared standby holds all other slots."""
    cluster = Cluster(6, standby="driver+executors", **options)
    cluster.register(2).observe().job.when_prepared()
    assert holds_executors(cluster.observe().job.state)
    return cluster


def test_standby_releases_its_slots_for_the_growth_of_its_job() -> None:
    cluster = with_standby()
    cluster.job.when_requirements(3, 4).then_parallelism(4)
    assert not holds_executors(cluster.job.state)
    cluster.granted = {1: 4, 2: 0}
    cluster.observe().job.when_plan_activated()
    cluster.expect("Executing")


def test_lost_executor_comes_back_on_the_slots_of_the_standby() -> None:
    cluster = with_standby()
    cluster.granted[1], cluster.cores = 1, 5
    cluster.observe().expect("RestartingLocally")
    assert not holds_executors(cluster.job.state)
    cluster.granted = {1: 2, 2: 0}
    cluster.observe().expect("Executing", "all slots of the plan are available again")
