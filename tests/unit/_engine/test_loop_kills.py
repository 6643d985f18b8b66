"""A job's loop is killed, frozen and replaced at each of its changes: never two drivers with queries, never a lost job.

A loop changes external systems only by calls to the ports, so the calls are all steps. The loop dies before, during and after each call that changes something, and
another loop takes over at once, late, on a host with another time, or as another attempt. Drivers, storage and masters continue meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from itertools import product
from typing import Any

import pytest

from airflow_adaptive._core.protocol.conf import PREFIX
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.journal import journal
from airflow_adaptive._engine.journal.journal import SupersededError
from tests.lab.fleet.cluster.driver import DriverTimes
from tests.lab.fleet.cluster.masters import MasterFault
from tests.lab.fleet.jobs import JOB, Call, Interceptor, OneJobFleet, Triggerer
from tests.lab.fleet.kernel.kernel import Action
from tests.support.examples import is_nightly, long_except

CHANGES = frozenset({"create", "record", "compact", "submit", "kill", "clean_up"})
"""Calls to ports that change external systems."""

QUICK: dict[str, Any] = {
    "resource_wait_timeout": "3 h",  # a job without a loop for a minute must not give up
    "scaling_interval_min": "2 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "2 s",
    "slot_idle_timeout": 0,
    "deploy_timeout": "40 s",
    "stop_timeout": "4 s",
    "driver_heartbeat_timeout": "6 s",
    "driver_lease_timeout": "6 s",
    "history_size": 4,
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"},
}

RUNS_S = 8.0
"""Time at which the first driver runs its query."""

STEP = 1 if is_nightly() else 8
"""The nightly run interrupts a loop at each change, and the other runs at each eighth one, which differs from scenario to scenario."""

LONGEST_LIFE_S = 300
"""A job that has not ended by then is lost."""

FIRST_DRIVER = f"driver-1@{JOB}*"
"""Pattern of the names of its processes."""

FAILURE = FailureReport(error_class="SparkException", message="a task failed", causes=("SparkException",))

Act = Callable[["Life"], Any]


class Life(OneJobFleet):
    """One job from its start until it is suspended, when all events have happened and it runs again.

    Attributes:
        slots: it is well when it runs on so many.
        is_cleaned_up: whether a loop has removed the objects of the job on the cluster.
    """

    def __init__(self, scenario: Scenario) -> None:
        times = DriverTimes(boot_s=(scenario.boot_s,) * 2, registration_s=(0.5, 0.5), exit_s=(0.5, 0.5))
        super().__init__(parallelism=(1, 4), times=times, starts=False, **{**QUICK, **scenario.options})
        self.slots = scenario.slots
        self.is_stop_requested = self.is_cleaned_up = False
        self.ends: dict[str, list[Action]] = {}
        """Functions that end the faults which have begun, by the name of the fault."""
        self._last_event_s = max((at for at, _ in scenario.events), default=0.0)
        if scenario.cores:
            self.add_workers(scenario.cores)
        for at, act in scenario.events:
            self.kernel.at(at, partial(act, self))

    def start_loop(self, triggerer: Triggerer | None = None, lifetime_s: float | None = None) -> None:
        """Start a loop that nothing interrupts."""
        self.job.start_loop(triggerer, self.make, lifetime_s)

    async def make(self, name: str, call: Call) -> Any:
        """Make a call to a port."""
        self.is_cleaned_up = self.is_cleaned_up or name == "clean_up"
        return await call()

    def live(self) -> None:
        """Run until a loop has ended the job, which no loop has left."""
        self.run_until(self.has_ended, LONGEST_LIFE_S)
        self.check_end()

    def check_end(self) -> None:
        """Make sure that no epoch was submitted twice, and that neither a driver nor its objects are left."""
        submissions = [it for it in self.cluster.submissions.values() if PREFIX + "epoch" in it.conf]
        epochs = [it.conf[PREFIX + "epoch"] for it in submissions]
        assert epochs or self.is_stop_requested
        assert len(epochs) == len(set(epochs)), f"epochs {epochs}: one was submitted twice"
        self.run_until(lambda: not self.drivers.alive(JOB), 60)
        assert self.is_cleaned_up, "the objects of the job remain on the cluster"

    def stop(self) -> None:
        self.job.request(DesiredState.SUSPENDED)
        self.is_stop_requested = True

    def try_again(self) -> None:
        """The task runs again: another attempt, with the desired state RUNNING."""
        self.job.spec = replace(self.job.spec, attempt="attempt-2")
        self.store.requests, self.is_stop_requested = ControlRequests(), False

    def begin(self, name: str, end: Action) -> None:
        self.ends.setdefault(name, []).append(end)

    def end(self, name: str) -> None:
        for end in self.ends.pop(name, []):
            end()

    def has_ended(self) -> bool:
        is_over = self.kernel.now > self._last_event_s
        if is_over and not self.is_stop_requested and self.runs_with(self.slots)():
            self.stop()
        ended = [end for end in self.job.ends if isinstance(end, SchedulerState)]
        return any(end.name == "Finished" and end.driver is None for end in ended)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What happens to a job.

    Attributes:
        events: (seconds since the start, what happens then).
    """

    events: tuple[tuple[float, Act], ...] = ()
    slots: int = 1
    cores: int = 2
    boot_s: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)


def worker_joins(life: Life) -> None:
    life.add_workers(1)


def worker_is_lost(life: Life) -> None:
    """And what runs there continues; another worker takes its place."""
    life.cluster.lose_worker(life.cluster.workers[0].worker_id)
    life.add_workers(2)


def driver_dies(life: Life) -> None:
    for driver in life.drivers.alive(JOB):
        driver.processes.kill()


def driver_vanishes(life: Life) -> None:
    """The cluster forgets the driver, whose processes end without a status."""
    for driver in life.drivers.alive(JOB):
        driver.processes.kill()
        life.kernel.after(0.2, partial(life.cluster.forget_driver, driver.submission_id))


def query_fails(life: Life) -> None:
    life.kernel.after(2.0, life.model.fail_queries(FAILURE))


def driver_freezes(life: Life) -> None:
    for driver in life.drivers.alive(JOB):
        life.begin("frozen", driver.processes.freeze())


def driver_is_disconnected(life: Life) -> None:
    """From the storage."""
    life.begin("disconnected", life.storage.faults.fail("*", FIRST_DRIVER))


def driver_is_mute(life: Life) -> None:
    """The driver reads the journal, and cannot write its status."""
    life.storage.faults.fail("*/status.json", FIRST_DRIVER)


def storage_hangs(life: Life) -> None:
    life.begin("hanging", life.storage.faults.hang())


def masters_lose_responses(life: Life) -> None:
    life.begin("lost", life.masters.begin(MasterFault("lose", kinds="[ck]*")))


def masters_refuse(life: Life) -> None:
    life.begin("refused", life.masters.begin(MasterFault("refuse")))


def ends(name: str) -> Act:
    return lambda life: life.end(name)


def user_requests(desired_state: DesiredState) -> Act:
    def request(life: Life) -> None:
        life.job.request(desired_state)
        life.is_stop_requested = True

    return request


SCENARIOS: dict[str, Scenario] = {
    "start": Scenario(),
    "start without room": Scenario(events=((5, worker_joins), (9, worker_joins)), cores=0),
    "start of a slow driver": Scenario(boot_s=30),
    "start whose response is lost": Scenario(events=((0, masters_lose_responses), (3, ends("lost")))),
    "rescale": Scenario(events=((RUNS_S, worker_joins),), slots=2),
    "death of the driver": Scenario(events=((RUNS_S, driver_dies),)),
    "death of the driver while no master answers": Scenario(
        events=((RUNS_S, driver_dies), (RUNS_S, masters_refuse), (26, ends("refused")))
    ),
    "driver that vanishes": Scenario(events=((12, driver_vanishes),), cores=10, slots=4),
    "failure of the query": Scenario(events=((RUNS_S, query_fails),)),
    "loss of the driver's worker": Scenario(events=((RUNS_S, worker_is_lost),)),
    "loss of all that the driver sees": Scenario(events=((RUNS_S, worker_is_lost), (RUNS_S, driver_is_disconnected))),
    "frozen driver": Scenario(events=((RUNS_S, driver_freezes), (30, ends("frozen")))),
    "frozen driver on a lost worker": Scenario(
        events=((RUNS_S, worker_is_lost), (RUNS_S, driver_freezes), (30, ends("frozen")))
    ),
    "frozen driver whose death is not confirmed": Scenario(
        events=(
            (RUNS_S, driver_freezes),
            (RUNS_S, masters_lose_responses),
            (30, ends("frozen")),
            (40, ends("lost")),
        )
    ),
    "driver without storage": Scenario(events=((RUNS_S, driver_is_disconnected),)),
    "mute driver": Scenario(events=((RUNS_S, driver_is_mute),)),
    "mute driver on a lost worker that loses the storage": Scenario(
        events=((RUNS_S, worker_is_lost), (RUNS_S, driver_is_mute), (24, driver_is_disconnected)),
        options={"driver_heartbeat_timeout": "30 s", "driver_lease_timeout": "30 s"},
    ),
    "short outage of the storage": Scenario(events=((RUNS_S, storage_hangs), (RUNS_S + 3, ends("hanging")))),
    "long outage of the storage": Scenario(events=((RUNS_S, storage_hangs), (30, ends("hanging")))),
    "suspend": Scenario(events=((RUNS_S, user_requests(DesiredState.SUSPENDED)),)),
    "cancel": Scenario(events=((RUNS_S, user_requests(DesiredState.CANCELED)),)),
    "cancel of a frozen driver": Scenario(
        events=(
            (RUNS_S, driver_freezes),
            (RUNS_S, user_requests(DesiredState.CANCELED)),
            (30, ends("frozen")),
        )
    ),
}

HEALTHY = ["start", "start without room", "rescale", "suspend", "cancel"]
"""Lives in which no driver is lost: one is enough, whatever happens to the loop."""


KINDS = long_except(
    SCENARIOS,
    "start whose response is lost",
    "rescale",
    "death of the driver",
    "frozen driver whose death is not confirmed",
    "long outage of the storage",
)


@pytest.fixture(autouse=True)
def often_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal is compacted after a hundred documents otherwise."""
    monkeypatch.setattr(journal, "_COMPACT_EVERY", 6)


# ---- what becomes of a loop -----------------------------------------------------------------------------------------


class Interruption:
    """Interrupts a loop at its nth change.

    Attributes:
        changes: names of the changes that the loop has begun, in order.
        happened: whether the loop has reached the change.
    """

    def __init__(self, life: Life, number: int, position: str, interrupt: Callable[[Triggerer], object]) -> None:
        self.changes: list[str] = []
        self.happened = False
        self._life = life
        self._number = number
        self._position = position
        self._interrupt = interrupt
        self.process = life.job.start_loop(intercept=self)

    async def __call__(self, name: str, call: Call) -> Any:
        if name not in CHANGES:
            return await self._life.make(name, call)
        self.changes.append(name)
        if len(self.changes) - 1 != self._number:
            return await self._life.make(name, call)
        if self._position == "before":
            await self._happen()
        elif self._position == "during":  # the request has left, and has its effect
            self._life.kernel.after(0.005, self._act)
        answer = await self._life.make(name, call)
        if self._position == "after":
            await self._happen()
        return answer

    def reach(self) -> None:
        """Run until the interruption."""
        self._life.run_until(lambda: self.happened or self._life.has_ended(), LONGEST_LIFE_S)
        assert self.happened, f"the loop has made {len(self.changes)} changes"

    async def _happen(self) -> None:
        self._act()
        await asyncio.sleep(0)  # continues only when the process does

    def _act(self) -> None:
        self.happened = True
        self._interrupt(self.process)


def changes_of(kind: str, first: int = 0) -> range:
    """Return the numbers of the changes to interrupt in a life, among those of a loop that nothing interrupts."""
    return range((list(SCENARIOS).index(kind) + first) % STEP, _number_of_changes(kind), STEP)


@cache
def _number_of_changes(kind: str) -> int:
    life = Life(SCENARIOS[kind])
    interruption = Interruption(life, -1, "", lambda process: None)
    life.live()
    assert {"create", "submit", "clean_up"} <= set(interruption.changes) <= CHANGES
    return len(interruption.changes)


FOLLOWERS: dict[str, tuple[float, timedelta, bool]] = {
    "next loop": (0, timedelta(0), False),
    "late loop": (40, timedelta(0), False),
    "next attempt": (0, timedelta(0), True),
    "loop on a host an hour behind": (0, timedelta(hours=-1), False),
    "loop on a host an hour ahead": (0, timedelta(hours=1), False),
}
"""Name -> (seconds until the loop starts, how far its clock is ahead, whether it belongs to another attempt)."""

VARIANTS = list(product(("before", "during", "after"), FOLLOWERS))


def variants(kind: str, number: int) -> list[tuple[str, str]]:
    """Return all variants in the nightly run, and otherwise one, which differs from change to change and from scenario to scenario."""
    chosen = (number * 4 + list(SCENARIOS).index(kind)) % len(VARIANTS)
    return VARIANTS if is_nightly() else [VARIANTS[chosen]]


def follow(life: Life, follower: str) -> None:
    """Start the loop that follows a killed one."""
    gap_s, ahead, is_retry = FOLLOWERS[follower]
    life.run(gap_s)
    if is_retry:
        life.try_again()
    process = life.add_triggerer()
    process.wall_offset = ahead
    life.start_loop(process)


# ---- tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_another_loop_continues_wherever_a_loop_was_killed(kind: str) -> None:
    for number in changes_of(kind):
        for position, follower in variants(kind, number):
            life = Life(SCENARIOS[kind])
            killed = Interruption(life, number, position, Triggerer.kill)
            killed.reach()
            follow(life, follower)
            try:
                life.live()
            except AssertionError as error:
                raise AssertionError(f"killed {position} change {number}, {killed.changes[-1]}; {follower}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_third_loop_continues_wherever_the_second_was_killed_after_a_submission(kind: str) -> None:
    """The second loop is killed at its first changes, by which it adopts or replaces the driver."""
    for number in range(3 if is_nightly() else 1):
        life = Life(SCENARIOS[kind])
        life.job.start_loop(intercept=_after("submit", life, Triggerer.kill))
        life.run_until(lambda: not life.triggerers[0].is_alive or life.has_ended(), LONGEST_LIFE_S)  # noqa: B023  it runs now
        second = Interruption(life, number, "after", Triggerer.kill)
        life.run_until(lambda: second.happened or life.has_ended(), LONGEST_LIFE_S)  # noqa: B023  it runs now
        life.start_loop()
        life.live()


def _after(name: str, life: Life, interrupt: Callable[[Triggerer], object]) -> Interceptor:
    """Interrupt the first loop after its first call of a port's method."""
    called: list[str] = []

    async def intercept(method: str, call: Call) -> Any:
        answer = await life.make(method, call)
        if method == name and name not in called:
            called.append(name)
            interrupt(life.triggerers[0])
            await asyncio.sleep(0)
        return answer

    return intercept


def freeze(life: Life, seconds: float) -> Callable[[Triggerer], None]:
    def interrupt(process: Triggerer) -> None:
        process.freeze()
        life.kernel.after(seconds, process.resume)

    return interrupt


@pytest.mark.parametrize("kind", KINDS)
def test_loop_that_was_frozen_before_any_of_its_changes_continues(kind: str) -> None:
    for number in changes_of(kind):
        for seconds in [3, 25] if is_nightly() else [[3, 25][number % 2]]:
            life = Life(SCENARIOS[kind])
            Interruption(life, number, "before", freeze(life, seconds))
            life.live()
            assert kind not in HEALTHY or len(life.drivers.started) <= 1, f"frozen for {seconds} s at change {number}"


def test_deadline_that_passes_while_the_loop_is_frozen_waits_for_an_observation() -> None:
    life = Life(SCENARIOS["start"])
    life.job.start_loop(intercept=_after("submit", life, freeze(life, 45)))  # longer than `deploy_timeout`
    life.live()
    assert len(life.drivers.started) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_loop_that_thaws_when_another_runs_the_job_changes_nothing_more(kind: str) -> None:
    for number in changes_of(kind, 2):
        life = Life(SCENARIOS[kind])
        frozen = Interruption(life, number, "before" if number % 2 else "after", Triggerer.freeze)
        frozen.reach()
        life.start_loop()
        before = len(frozen.changes)
        life.kernel.after([2, 25][number % 2], frozen.process.resume)
        life.live()
        if any(isinstance(end, SupersededError) for end in life.job.ends):
            assert len(set(frozen.changes[before:]) - {"compact"}) <= 2, "it did more than end what it was at"
        assert all(isinstance(end, SupersededError) or getattr(end, "name", "") == "Finished" for end in life.job.ends)


@pytest.mark.parametrize("kind", KINDS)
def test_request_that_arrives_long_after_its_loop_was_killed_does_no_harm(kind: str) -> None:
    for number, name in enumerate(_requests(SCENARIOS[kind])):
        life = Life(SCENARIOS[kind])
        held: list[Action] = []

        def hold(process: Triggerer, life: Life = life, held: list[Action] = held) -> None:
            held.append(life.masters.begin(MasterFault("hang", clients=process.name)))
            life.kernel.after(1.0, process.kill)

        _at_request(life, number, hold)
        life.run_until(lambda: held or life.has_ended(), LONGEST_LIFE_S)  # noqa: B023  it runs now
        life.run(1.5)
        life.start_loop()
        life.kernel.after(25, held[0])
        try:
            life.live()
        except AssertionError as error:
            raise AssertionError(f"late {name}") from error


def _requests(scenario: Scenario) -> list[str]:
    """Return the requests to the cluster in a life whose loop nothing interrupts."""
    life = Life(scenario)
    requests = _at_request(life, -1, lambda process: None)
    life.live()
    return requests


def _at_request(life: Life, number: int, act: Callable[[Triggerer], object]) -> list[str]:
    """Start a loop, and act before its nth request that changes the cluster."""
    requests: list[str] = []

    async def intercept(name: str, call: Call) -> Any:
        if name in ("submit", "kill"):
            if len(requests) == number:
                act(process)
            requests.append(name)
        return await life.make(name, call)

    process = life.job.start_loop(intercept=intercept)
    return requests


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gap_s", long_except([0, 10], 0))
def test_loops_that_live_shorter_than_the_lease_bring_the_job_to_its_end(kind: str, gap_s: int) -> None:
    life = Life(SCENARIOS[kind])
    while not life.has_ended():
        assert life.kernel.now < LONGEST_LIFE_S, "the job is lost"
        ended = len(life.job.ends)
        life.start_loop(lifetime_s=5)
        life.run_until(lambda: len(life.job.ends) > ended, 60)  # noqa: B023  it runs now
        life.run(gap_s)
    life.check_end()


@pytest.mark.parametrize("later_s", long_except([-1, 0, 1], 0))
@pytest.mark.parametrize("boot_s", [29, 30, 31] if is_nightly() else [30])
def test_driver_that_comes_when_it_is_given_up_does_not_meet_its_successor(boot_s: int, later_s: float) -> None:
    """The loop stops for a moment in which the driver begins its query, and then the storage does not answer the driver."""
    patient = {"driver_lease_timeout": "20 s", "driver_heartbeat_timeout": "20 s", "deploy_timeout": "100 s"}
    events = ((boot_s + 5 + later_s, driver_is_disconnected),)
    slow = Scenario(events=events, cores=10, slots=4, boot_s=boot_s, options=patient)
    number, is_reached = 0, True
    while is_reached:
        life = Life(slow)
        interruption = Interruption(life, number, "before", freeze(life, 3))
        life.live()
        number, is_reached = number + (1 if is_nightly() else 4), interruption.happened
