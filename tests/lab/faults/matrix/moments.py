"""The moments at which a fault strikes: how the job is led there, how one sees that it is there, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from tests.lab.faults.matrix.matrix_job import FEW_PARTITIONS, MORE_SLOTS_THAN_AVAILABLE, MatrixJob, backs_off, where


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a job is when a fault strikes.

    Attributes:
        name: as the table has it.
        prepare: brings the job to where the lead begins.
        lead: sets off what leads there.
        seen: whether it is there.
        passes: whether it may be over within milliseconds: then the driver is frozen until the fault has struck.
        go_on: what ends the moment, or leads back from it, when the fault is over.
        words: pattern of what names the failures that lead to the moment.
    """

    name: str
    lead: Callable[[MatrixJob], None]
    seen: Callable[[MatrixJob], bool]
    prepare: Callable[[MatrixJob], None] = lambda job: None
    passes: bool = False
    go_on: Callable[[MatrixJob], None] = lambda job: None
    words: str = r"(?!)"


def in_state(name: str) -> Callable[[MatrixJob], bool]:
    """The log has the job in that state."""
    return lambda job: bool(where(job)["type"] == name)


def during(tier: Tier) -> Callable[[MatrixJob], bool]:
    """The plan of that tier is written, and the driver has not reported it as active; from tier 1 on, the driver has begun to apply it."""

    def seen(job: MatrixJob) -> bool:
        status = job.status()
        if status is None or (tier >= Tier.QUERY and status.state is not DriverState.RESCALING):
            return False
        state = where(job)
        waits = state["type"] == "Deploying" and state["tier"] == tier and not state["active"]
        return bool(waits and status.version < state["plan"]["version"])

    return seen


def takes_over(job: MatrixJob) -> bool:
    """A standby is the driver, and has not reported its plan as active."""
    newest = job.newest()
    driver = newest and newest.scheduler["driver"]
    return bool(driver and driver["took_over"]) and in_state("Deploying")(job)


def leaves_its_driver(job: MatrixJob) -> bool:
    """The driver is to stop in favour of another."""
    state = where(job)
    return state["type"] == "Restarting" and not state["in_place"] and state["failure"] is None


def _run(**parallelism: int) -> Callable[[MatrixJob], None]:
    return lambda job: job.have(**parallelism)


def _request_bounds(**bounds: tuple[int, int]) -> Callable[[MatrixJob], None]:
    return lambda job: job.require(**bounds)


def _change_what_is_read(job: MatrixJob) -> None:
    job.require(read=(1, 1) if job.runs_on(read=2) else (1, 2))


def _change_partitions(job: MatrixJob) -> None:
    job.redeploy(partitions=FEW_PARTITIONS + 1 if job.partitions == FEW_PARTITIONS else FEW_PARTITIONS)


def _change_conf(job: MatrixJob) -> None:
    job.redeploy(conf={"spark.deployed.by": str(job.attempt)})


def _lose_an_executor(job: MatrixJob) -> None:
    job.executors()[0].kill()


def _lose_the_driver(job: MatrixJob) -> None:
    for process in job.journaled_processes():
        process.kill()


def _suspend(job: MatrixJob) -> None:
    job.request_state("suspended")
    job.wait_end()


def _resume(job: MatrixJob) -> None:
    job.wait_end()
    job.resume()


WAITING = Moment(
    name="Waiting",
    lead=_request_bounds(read=(MORE_SLOTS_THAN_AVAILABLE, MORE_SLOTS_THAN_AVAILABLE)),
    seen=in_state("WaitingForResources"),
    go_on=_request_bounds(read=(1, 1)),
)
DEPLOYING = Moment(name="Deploying", prepare=_suspend, lead=MatrixJob.resume, seen=in_state("Deploying"))
EXECUTING = Moment(name="Executing", lead=lambda job: None, seen=in_state("Executing"))
TIER_0_UP = Moment(
    name="tier 0 up",
    prepare=_run(read=1, distinct=1),
    lead=_request_bounds(distinct=(1, 2)),
    seen=during(Tier.EXECUTORS),
    passes=True,
)
TIER_0_DOWN = Moment(
    name="tier 0 down",
    prepare=_run(read=1, distinct=2),
    lead=_request_bounds(distinct=(1, 1)),
    seen=during(Tier.EXECUTORS),
    passes=True,
)
TIER_1 = Moment(
    name="tier 1", prepare=_run(distinct=2), lead=_change_what_is_read, seen=during(Tier.QUERY), passes=True
)
TIER_2 = Moment(name="tier 2", prepare=_run(distinct=2), lead=_change_partitions, seen=during(Tier.STATE), passes=True)
TIER_3 = Moment(name="tier 3", lead=_change_conf, seen=leaves_its_driver, passes=True)
RESTARTING_LOCALLY = Moment(
    name="RestartingLocally", prepare=_run(distinct=2), lead=_lose_an_executor, seen=in_state("RestartingLocally")
)
TAKEOVER = Moment(
    name="takeover",
    lead=_lose_the_driver,
    seen=takes_over,
    passes=True,
    words=r"DRIVER_LOST: .*\(FAILED\)",
)
BACKOFF = Moment(
    name="Restarting", lead=MatrixJob.poison, seen=backs_off, go_on=MatrixJob.cure, words=r"DIVIDE_BY_ZERO"
)
SUSPENDING = Moment(
    name="StopWithSavepoint",
    lead=lambda job: job.request_state("suspended"),
    seen=in_state("StopWithSavepoint"),
    passes=True,
    go_on=_resume,
)
CANCELING = Moment(
    name="Canceling",
    lead=lambda job: job.request_state("canceled"),
    seen=in_state("Canceling"),
    passes=True,
    go_on=_resume,
)

MOMENTS = (
    WAITING,
    DEPLOYING,
    EXECUTING,
    TIER_0_UP,
    TIER_0_DOWN,
    TIER_1,
    TIER_2,
    TIER_3,
    RESTARTING_LOCALLY,
    BACKOFF,
    SUSPENDING,
    CANCELING,
)
WITH_STANDBY = (TAKEOVER, *(moment for moment in MOMENTS if moment not in (WAITING, DEPLOYING)))
"""Moments of a job with a standby; while it waits or starts, it has none."""
