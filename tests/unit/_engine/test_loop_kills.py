"""A job's loop is killed, frozen and replaced at every step: never two drivers with queries, never a lost job.

A loop changes external systems only by calls to the ports, so the calls are all steps. It dies before and after
each call that changes something, and now and then in between; a call that only reads changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import PortError
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.journal import journal
from airflow_adaptive._engine.journal.journal import SupersededError
from tests.lab.fakes.coroutines import result_of
from tests.support.examples import is_nightly
from tests.support.runtime.intercepted_loops import CHANGES, Freezer, SetClock
from tests.support.runtime.leased_drivers import EVERY_EPOCH
from tests.support.runtime.loop_kill_simulation import Call, LoopKillSimulation

IN_BETWEEN_S = 10.0
"""How often a loop dies while it changes nothing."""

STEP = 1 if is_nightly() else 5
"""The nightly run kills and freezes a loop at each step, and `make check` at each fifth one, except the first test."""

StateChange = Callable[[LoopKillSimulation], None]


def worker_joins(life: LoopKillSimulation) -> None:
    life.cluster.add_worker(cores=1, memory_mb=512)


def worker_is_lost(life: LoopKillSimulation) -> None:
    """And what runs there runs on; another takes its place."""
    life.cluster.kill_worker(next(iter(life.cluster._workers)))
    life.cluster.add_worker(cores=2, memory_mb=1024)


def driver_dies(life: LoopKillSimulation) -> None:
    for submission_id in life.cluster.submissions:
        life.cluster.kill_driver(submission_id)


def driver_vanishes(life: LoopKillSimulation) -> None:
    """Publish nothing."""
    life.drivers.vanish()


def query_fails(life: LoopKillSimulation) -> None:
    if life.drivers.active:
        life.drivers.fail_query()


def drivers_are(*faults: str, epoch: int = 1) -> StateChange:
    return lambda life: life.drivers.faults.update({epoch: frozenset(faults)})


def cluster_is(**changes: bool) -> StateChange:
    def change(life: LoopKillSimulation) -> None:
        for name, value in changes.items():
            setattr(life.cluster, name, value)

    return change


def directory_is(*, available: bool) -> StateChange:
    def change(life: LoopKillSimulation) -> None:
        life.directory.available = available
        drivers_are(*(() if available else ("blind", "mute")), epoch=EVERY_EPOCH)(life)

    return change


def user_requests(desired_state: DesiredState) -> StateChange:
    def request(life: LoopKillSimulation) -> None:
        life.store.requests, life.is_stop_requested = ControlRequests(desired_state=desired_state), True

    return request


SCENARIOS: dict[str, Callable[[], LoopKillSimulation]] = {
    "start": LoopKillSimulation,
    "start without room": lambda: LoopKillSimulation((5, worker_joins), (9, worker_joins), cores=0),
    "start of a slow driver": lambda: LoopKillSimulation(boot_s=(30, 30)),
    "start whose answer is lost": lambda: LoopKillSimulation(
        (0, cluster_is(answers=False)), (3, cluster_is(answers=True))
    ),
    "rescale": lambda: LoopKillSimulation((8, worker_joins), slots=2),
    "death of the driver": lambda: LoopKillSimulation((8, driver_dies)),
    "death of the driver and of the master": lambda: LoopKillSimulation(
        (8, driver_dies), (8, cluster_is(reachable=False)), (26, cluster_is(reachable=True))
    ),
    "driver that vanishes": lambda: LoopKillSimulation((12, driver_vanishes), cores=10, slots=4),
    "failure of the query": lambda: LoopKillSimulation((8, query_fails)),
    "loss of the driver's worker": lambda: LoopKillSimulation((8, worker_is_lost)),
    "loss of all that the driver sees": lambda: LoopKillSimulation(
        (8, worker_is_lost), (8, drivers_are("blind", "mute"))
    ),
    "frozen driver": lambda: LoopKillSimulation((8, drivers_are("frozen")), (30, drivers_are())),
    "frozen driver on a lost worker": lambda: LoopKillSimulation(
        (8, worker_is_lost), (8, drivers_are("frozen")), (30, drivers_are())
    ),
    "frozen driver whose death is not confirmed": lambda: LoopKillSimulation(
        (8, drivers_are("frozen")), (8, cluster_is(answers=False)), (30, drivers_are()), (40, cluster_is(answers=True))
    ),
    "blind driver": lambda: LoopKillSimulation((8, drivers_are("blind"))),
    "mute driver": lambda: LoopKillSimulation((8, drivers_are("mute"))),
    "mute driver that goes blind on a lost worker": lambda: LoopKillSimulation(
        (8, worker_is_lost),
        (8, drivers_are("mute")),
        (24, drivers_are("mute", "blind")),
        driver_heartbeat_timeout="30 s",
    ),
    "short outage of the directory": lambda: LoopKillSimulation(
        (8, directory_is(available=False)), (11, directory_is(available=True))
    ),
    "long outage of the directory": lambda: LoopKillSimulation(
        (8, directory_is(available=False)), (30, directory_is(available=True))
    ),
    "suspend": lambda: LoopKillSimulation((8, user_requests(DesiredState.SUSPENDED))),
    "cancel": lambda: LoopKillSimulation((8, user_requests(DesiredState.CANCELED))),
    "cancel of a frozen driver": lambda: LoopKillSimulation(
        (8, drivers_are("frozen")), (8, user_requests(DesiredState.CANCELED)), (30, drivers_are())
    ),
}


def moments(life: LoopKillSimulation, in_between_s: float = IN_BETWEEN_S) -> list[tuple[str, LoopKillSimulation]]:
    """Copies of the simulation from all steps of a loop that runs a life to its end."""
    copies: list[tuple[str, LoopKillSimulation]] = []
    last_s = 0.0

    async def copied(name: str, call: Call) -> Any:
        nonlocal last_s
        if name in CHANGES:
            copies.append((f"before {name} at {life.clock.elapsed:g} s", life.copy()))
        answer = await call()
        if name in CHANGES or life.clock.elapsed >= last_s + in_between_s:
            last_s = life.clock.elapsed
            copies.append((f"after {name} at {life.clock.elapsed:g} s", life.copy()))
        return answer

    asyncio.run(life.through(copied).run())
    return copies


@contextmanager
def killed(moment: str) -> Iterator[None]:
    """Tell when the loop was killed."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"killed {moment}: {error}") from error


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of loops would log."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def often_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal is compacted after a hundred documents otherwise."""
    monkeypatch.setattr(journal, "_COMPACT_EVERY", 6)


def test_loops_are_killed_at_each_kind_of_change() -> None:
    found = {moment.split()[1] for scenario in SCENARIOS.values() for moment, _ in moments(scenario(), math.inf)}
    assert found == CHANGES


@pytest.mark.parametrize("kind", SCENARIOS)
def test_next_loop_goes_on_wherever_a_loop_was_killed(kind: str) -> None:
    for moment, life in moments(SCENARIOS[kind]()):
        with killed(moment):
            life.live()


@pytest.mark.parametrize("kind", SCENARIOS)
def test_loop_that_comes_late_goes_on_wherever_a_loop_was_killed(kind: str) -> None:
    for moment, life in moments(SCENARIOS[kind](), in_between_s=math.inf)[::STEP]:
        with killed(moment):
            life.pass_time(40)
            life.live()


@pytest.mark.parametrize("kind", SCENARIOS)
def test_next_attempt_goes_on_wherever_a_loop_was_killed(kind: str) -> None:
    for moment, life in moments(SCENARIOS[kind](), in_between_s=math.inf)[::STEP]:
        with killed(moment):
            life.try_again()
            life.live()


@pytest.mark.parametrize("kind", SCENARIOS)
def test_third_loop_goes_on_wherever_the_second_was_killed_after_a_submission(kind: str) -> None:
    submissions = [it for it in moments(SCENARIOS[kind](), in_between_s=math.inf) if "submit" in it[0]]
    for first, life in submissions:
        for second, again in moments(life, in_between_s=math.inf)[::STEP]:
            with killed(f"{first} and {second}"):
                again.live()


HEALTHY = ["start", "start without room", "rescale", "suspend", "cancel"]
"""Lives in which no driver is lost: one is enough, whatever happens to the loop."""


async def freezing_alone(life: LoopKillSimulation, at: int, seconds: int, steps: frozenset[str] = CHANGES) -> bool:
    """Run a loop that stops for a while before one of its steps; False if there are fewer."""
    left = at

    async def fate(name: str, call: Call) -> Any:
        nonlocal left
        if name in steps:
            left -= 1
            for _ in range(seconds if left == -1 else 0):
                await life.clock.sleep(1.0)
        return await call()

    await life.through(fate).run()
    assert left < 0 or at, "the loop did not freeze"
    return left < 0


@pytest.mark.parametrize("kind", HEALTHY)
def test_loop_that_freezes_for_longer_than_the_lease_loses_no_driver(kind: str) -> None:
    for at in range(0, 1000, STEP):
        life = SCENARIOS[kind]()
        if not asyncio.run(freezing_alone(life, at, 25, CHANGES | {"sleep"})):
            return
        life.check_end()
        assert len(life.cluster.submissions) <= 1


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("seconds", [3, 25])
def test_loop_that_was_frozen_before_any_of_its_changes_goes_on(seconds: int, kind: str) -> None:
    for at in range(0, 1000, STEP):
        life = SCENARIOS[kind]()
        if not asyncio.run(freezing_alone(life, at, seconds)):
            return
        life.check_end()


def test_deadline_that_passes_while_the_loop_is_frozen_waits_for_a_look() -> None:
    steps: list[str] = []

    async def until_submitted(name: str, call: Call) -> Any:
        answer = await call()
        if name in CHANGES and "submit" not in steps:
            steps.append(name)
        return answer

    asyncio.run(LoopKillSimulation().through(until_submitted).run())
    life = LoopKillSimulation()
    asyncio.run(freezing_alone(life, len(steps), 45))  # longer than `deploy_timeout`
    assert len(life.cluster.submissions) == 1


@pytest.mark.parametrize("blind_at_s", [34, 35, 36])
@pytest.mark.parametrize("boot_s", [29, 30, 31])
def test_driver_that_comes_when_it_is_given_up_does_not_meet_its_successor(boot_s: int, blind_at_s: float) -> None:
    """The loop has looked and stops for a moment; in it the driver begins its query, and then its storage is away."""
    patient = {"driver_lease_timeout": "20 s", "driver_heartbeat_timeout": "20 s", "deploy_timeout": "100 s"}
    slow = LoopKillSimulation(
        (blind_at_s, drivers_are("blind", "mute")), cores=10, slots=4, boot_s=(boot_s, 1), **patient
    )
    after_submission = next(life for moment, life in moments(slow) if moment.startswith("after submit"))
    for at in range(0, 1000, STEP):
        life = after_submission.copy()
        if not asyncio.run(freezing_alone(life, at, 3)):
            return
        life.check_end()


@pytest.mark.parametrize("ahead_h", [-1, 1])
@pytest.mark.parametrize("kind", SCENARIOS)
def test_next_loop_goes_on_when_the_clock_was_set_in_between(kind: str, ahead_h: int) -> None:
    for moment, life in moments(SCENARIOS[kind](), in_between_s=math.inf)[::STEP]:
        with killed(moment):
            life.ports = replace(life.ports, clock=SetClock(life.clock, timedelta(hours=ahead_h)))
            life.live()


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("gap_s", [0, 10])
def test_loops_that_live_shorter_than_the_lease_bring_the_job_to_its_end(kind: str, gap_s: int) -> None:
    SCENARIOS[kind]().live_in_short_loops(lifetime_s=5, gap_s=gap_s)


async def with_a_frozen_loop(life: LoopKillSimulation, freezer: Freezer, thaw_after_s: float) -> bool:
    """Another loop takes over from one that freezes, which thaws while the other runs; False if it did not freeze."""

    async def thawing(name: str, call: Call) -> Any:
        if name == "sleep" and life.clock.elapsed >= thaw_at:
            freezer.thawed.set()
        return await call()

    sleeper = asyncio.ensure_future(life.through(freezer).run())
    await asyncio.wait([sleeper, asyncio.ensure_future(freezer.frozen.wait())], return_when=asyncio.FIRST_COMPLETED)
    if sleeper.done():
        assert freezer.at, "the loop did not freeze"
        return False
    thaw_at = life.clock.elapsed + thaw_after_s
    other = asyncio.ensure_future(life.through(thawing).run())
    await asyncio.wait([other])
    freezer.thawed.set()
    slept, ran = await asyncio.gather(sleeper, other, return_exceptions=True)
    if isinstance(slept, SupersededError):
        assert freezer.changes_since <= 2, "it did more than end what it was at"
    ends = [end for end in (slept, ran) if not isinstance(end, SupersededError)]
    assert ends
    for end in ends:
        assert isinstance(end, SchedulerState)
        assert end.name == "Finished"
    return True


@pytest.mark.parametrize("kind", SCENARIOS)
def test_call_that_a_frozen_loop_makes_late_does_no_harm(kind: str) -> None:
    """What it was about to do when it froze is done when another loop has run the job for a while."""
    for moment, late, life in last_calls(SCENARIOS[kind]()):
        with killed(moment):
            life.events = sorted([*life.events, (life.clock.elapsed + 25, late)], key=lambda event: event[0])
            life.live()


def last_calls(life: LoopKillSimulation) -> list[tuple[str, StateChange, LoopKillSimulation]]:
    """The calls that change something in a life, and copies of the simulation before the calls."""
    calls: list[tuple[str, StateChange, LoopKillSimulation]] = []

    def made_late(name: str, args: tuple[Any, ...]) -> StateChange:
        def make(life: LoopKillSimulation) -> None:
            port = life.cluster if name in ("submit", "kill", "clean_up") else life.directory
            with suppress(PortError):
                result_of(getattr(port, name)(*args))

        return make

    async def noted(name: str, call: Call) -> Any:
        if name in CHANGES - {"create"}:  # a document that comes late is refused, see the loops that thaw
            calls.append((f"before {name} at {life.clock.elapsed:g} s", made_late(name, call.args), life.copy()))
        return await call()

    asyncio.run(life.through(noted).run())
    return calls


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("thaw_after_s", [2, 25])
def test_loop_that_thaws_when_another_runs_the_job_changes_nothing_more(thaw_after_s: float, kind: str) -> None:
    for at in range(0, 1000, STEP):
        life, freezer = SCENARIOS[kind](), Freezer(at // 2, after=bool(at % 2))
        if not asyncio.run(with_a_frozen_loop(life, freezer, thaw_after_s)):
            return
        life.check_end()
