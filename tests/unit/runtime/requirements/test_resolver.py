"""A job that follows a rescale policy by itself, and people who say otherwise: the real loop, in simulated time."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_adaptive.autoscaling import advisor as advisors
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import LookAhead, ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.job.protocol.codec import decode_journal
from airflow_adaptive.job.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive.ports import ControlRequests, DesiredState, Requester
from airflow_adaptive.runtime.loop import RunLimits
from airflow_adaptive.runtime.requirements.policy_input import ResolverInput
from airflow_adaptive.runtime.requirements.resolver import RequirementsResolver
from airflow_adaptive.scheduler.state import Executing, SchedulerState
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.scenario import Scenario
from airflow_adaptive.testing.simulation.one_job import Simulation

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
    "slot_request_max_interval": 0,
    "poll_interval": "5 s",
}
MINUTES = 60.0
HOURS = 3600.0


def calendar(*windows: Any, **more: Any) -> ScheduledPolicy:
    """By UTC; the simulation begins at midnight."""
    chosen = windows or (window("morning", (3, 4), start="01:00", end="02:00"),)
    return scheduled_policy(**({"zone": "UTC", "windows": chosen, "default": (1, 2)} | more))


def roomy(parallelism: tuple[int, int] = (1, 4), **options: Any) -> Simulation:
    """A cluster with room for the driver and eight slots."""
    simulation = Simulation(parallelism, **QUICK | options)
    simulation.cluster.add_worker(cores=9, memory_mb=9 * 512)
    return simulation


def following(policy: Any, parallelism: tuple[int, int] = (1, 4), **options: Any) -> Simulation:
    simulation = roomy(parallelism, **options)
    simulation.follow(policy)
    return simulation


def until(job: Simulation, seconds: float) -> SchedulerState:
    """Let a loop run until then; the next call begins another one, as after a kill."""
    return job.run(RunLimits(recycle_at=START + timedelta(seconds=seconds)))


def upper(state: SchedulerState) -> int:
    return state.requirements["job"].upper


def running_on(state: SchedulerState) -> int:
    assert isinstance(state.current, Executing), state.name
    return state.current.plan.parallelism["job"]


def shown(job: Simulation) -> Mapping[str, Any]:
    return job.store.views[-1]


def by(job: Simulation) -> tuple[str, str]:
    return (shown(job)["bounds_by"]["kind"], shown(job)["bounds_by"]["source"])


def reasons(job: Simulation) -> list[str]:
    """Of all decisions in the log."""
    documents = [decode_journal(job.channel.journal[number]) for number in sorted(job.channel.journal)]
    return [decision["reason"] for document in documents for decision in document.decisions]


def asks(job: Simulation, bounds: tuple[int, int], expires: float | None = None) -> None:
    """A person sets bounds, which may expire so many seconds after the start."""
    end = None if expires is None else START + timedelta(seconds=expires)
    job.store.asked = ControlRequests(
        requirements={"job": bounds}, requester=Requester(requested_by="alice", via="REST", expires_at=end)
    )


def lifts(job: Simulation) -> None:
    job.store.asked = ControlRequests(
        requirements={"job": (-1, -1)}, requester=Requester(requested_by="bob", via="CLI")
    )


@dataclass
class Load:
    """Rows per second that come in, of which a slot can process 100 while it is busy; a batch every 10 s."""

    job: Simulation
    rate: float = 100.0
    nonsense: Mapping[str, Any] | None = None

    def __call__(self, slots: int) -> Mapping[str, Any]:
        rows, batch = self.rate * 10.0, int(self.job.clock.elapsed // 10)
        working = max(1, slots)
        measured = {
            "committed": batch,
            "batch_id": batch,
            "batch_rows": int(rows),
            "batch_duration_ms": int(200 + rows / (100.0 * working) * 1000) + batch % 3,
            "input_rate": self.rate,
            "backlog": 0,
            "trigger_interval_ms": 10_000,
            "idle": True,
        }
        return measured | dict(self.nonsense or {})


def loaded(policy: Any, parallelism: tuple[int, int] = (1, 8), **options: Any) -> tuple[Simulation, Load]:
    job = following(policy, parallelism, **options)
    load = Load(job)
    job.drivers.measures = load
    job.drivers.commits = False
    return job, load


# ---- the calendar ---------------------------------------------------------------------------------------------------


def test_window_of_the_calendar_changes_the_bounds_and_the_job_rescales_into_it():
    job = following(calendar(look_ahead=None))
    night = until(job, 59 * MINUTES)
    assert (upper(night), running_on(night)) == (2, 2)
    morning = until(job, 61 * MINUTES)
    assert (upper(morning), running_on(morning)) == (4, 4)
    assert running_on(until(job, 2 * HOURS + 60)) == 2
    assert by(job) == ("POLICY", "calendar")


def test_job_is_planned_within_the_calendars_bounds_from_its_first_start_on():
    job = following(calendar())
    until(job, 10 * MINUTES)
    assert [parallelism["job"] for _, _, parallelism in job.drivers.started] == [2]


def test_rescale_for_a_window_begins_as_much_earlier_as_rescales_of_this_job_were_measured_to_take():
    windows = [window("first", 4, start="01:00", end="02:00"), window("second", 4, start="03:00", end="04:00")]
    job = following(calendar(*windows, look_ahead=LookAhead(unmeasured=timedelta(minutes=10))))
    assert running_on(until(job, 46 * MINUTES)) == 4, (
        "none was measured: ten minutes, and half of it more, up to fifteen"
    )
    assert running_on(until(job, 2 * HOURS + 60)) == 2
    assert running_on(until(job, 3 * HOURS - 60)) == 2, "they take seconds"
    assert running_on(until(job, 3 * HOURS + 10)) == 4


def test_decision_and_page_say_that_it_was_the_calendar_and_for_which_window():
    job = following(calendar(look_ahead=None))
    until(job, 90 * MINUTES)
    assert any(text.startswith("bounds by calendar (window 'morning'): ") for text in reasons(job))
    assert shown(job)["bounds_by"] == {
        "kind": "POLICY",
        "source": "calendar",
        "via": None,
        "since": (START + timedelta(hours=1)).isoformat(),
        "until": (START + timedelta(hours=2)).isoformat(),
        "reason": "window 'morning'",
    }
    policy = shown(job)["policy"]
    assert (policy["kind"], policy["dry_run"], policy["acts"], policy["problem"]) == (
        "ScheduledPolicy",
        False,
        True,
        None,
    )
    assert policy["advice"]["bounds"] == {"job": {"lower": 3, "upper": 4}}
    json.dumps(shown(job))


def test_job_without_a_policy_has_nothing_about_one_in_its_log_or_on_its_page():
    job = roomy()
    until(job, 10 * MINUTES)
    documents = [decode_journal(data) for data in job.channel.journal.values()]
    assert {json.dumps(document.requirements_resolver) for document in documents} == {"{}"}
    assert by(job) == ("DAG", "dag")
    assert shown(job)["policy"] is None


# ---- the load -------------------------------------------------------------------------------------------------------


def test_when_the_load_rises_the_upper_bound_rises_and_the_job_grows_and_with_the_load_it_shrinks_again():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    assert running_on(until(job, 20 * MINUTES)) == 1, "it gave back what its load does not take"
    load.rate = 300.0
    grown = until(job, 30 * MINUTES)
    assert running_on(grown) >= 4
    assert by(job) == ("POLICY", "load")
    assert any("bounds by load (query 'q': busy for " in text for text in reasons(job))
    load.rate = 60.0
    assert running_on(until(job, 60 * MINUTES)) == 1


def test_job_without_rows_gives_back_all_but_its_lower_bound():
    job, load = loaded(LoadPolicy(), (1, 8))
    load.rate = 300.0
    assert running_on(until(job, 10 * MINUTES)) >= 4
    last = load(4)
    job.drivers.measures = lambda slots: last
    assert running_on(until(job, 20 * MINUTES)) == 1


def test_load_moves_within_the_calendars_floor_and_ceiling():
    floor = calendar(window("morning", (3, 4), start="01:00", end="02:00"), default=(1, 8))
    job, load = loaded(CombinedPolicy(calendar=floor, load=LoadPolicy(down_delay=timedelta(minutes=5))), (1, 8))
    load.rate = 60.0
    assert running_on(until(job, 50 * MINUTES)) == 1
    assert running_on(until(job, 70 * MINUTES)) == 3
    assert by(job) == ("POLICY", "calendar and load")
    load.rate = 900.0
    assert running_on(until(job, 100 * MINUTES)) == 4


@pytest.mark.parametrize(
    "nonsense",
    [
        {"input_rate": None},
        {"input_rate": float("nan")},
        {"input_rate": -5.0},
        {"batch_duration_ms": 0},
        {"backlog": float("inf")},
        {"batch_rows": -1},
        {"trigger_interval_ms": float("nan")},
    ],
    ids=str,
)
def test_figures_that_make_no_sense_change_nothing(nonsense: Mapping[str, Any]):
    job, load = loaded(LoadPolicy(), (1, 8))
    load.rate = 300.0
    before = running_on(until(job, 10 * MINUTES))
    load.nonsense, load.rate = nonsense, 900.0
    assert running_on(until(job, 20 * MINUTES)) == before


# ---- people ---------------------------------------------------------------------------------------------------------


def test_person_wins_over_the_policy_until_the_bounds_expire_then_the_policy_goes_on():
    job = following(calendar(look_ahead=None))
    until(job, 30 * MINUTES)
    asks(job, (1, 1), expires=90 * MINUTES)
    held = until(job, 80 * MINUTES)
    assert running_on(held) == 1, "the window of the calendar has begun meanwhile"
    assert by(job) == ("USER", "alice")
    assert shown(job)["bounds_by"]["until"] == (START + timedelta(minutes=90)).isoformat()
    assert not shown(job)["policy"]["acts"]
    assert running_on(until(job, 91 * MINUTES)) == 4
    assert by(job) == ("POLICY", "calendar")
    assert any("bounds by alice (REST, until " in text for text in reasons(job))


def test_person_lifts_the_bounds_and_the_policy_goes_on():
    job = following(calendar(look_ahead=None))
    asks(job, (1, 1))
    assert running_on(until(job, 90 * MINUTES)) == 1
    lifts(job)
    assert running_on(until(job, 91 * MINUTES)) == 4


def test_without_a_policy_the_declared_bounds_come_back_when_a_persons_expire():
    job = roomy()
    asks(job, (1, 1), expires=10 * MINUTES)
    assert running_on(until(job, 9 * MINUTES)) == 1
    assert running_on(until(job, 11 * MINUTES)) == 4
    assert by(job) == ("DAG", "dag")


def test_loop_that_can_not_read_the_inbox_yet_keeps_to_what_the_log_says_a_person_has_set():
    job = following(calendar(look_ahead=None))
    asks(job, (1, 1), expires=90 * MINUTES)
    until(job, 30 * MINUTES)
    job.store.asked = ControlRequests(is_read=False)
    assert running_on(until(job, 80 * MINUTES)) == 1
    assert by(job) == ("USER", "alice")
    assert running_on(until(job, 92 * MINUTES)) == 4, "it expires all the same"


def test_bounds_of_a_calendar_that_is_kept_apart_are_told_as_such_and_a_persons_win_over_them():
    job = roomy()
    kept_apart = ControlRequests(
        calendar={"job": (2, 2)}, calendar_requester=Requester(requested_by="calendar/set/r", via="task")
    )
    job.store.asked = kept_apart
    assert running_on(until(job, 5 * MINUTES)) == 2
    assert by(job) == ("CALENDAR", "calendar")
    job.store.asked = replace(
        kept_apart, requirements={"job": (1, 1)}, requester=Requester(requested_by="alice", via="CLI")
    )
    assert running_on(until(job, 10 * MINUTES)) == 1
    lifted = replace(kept_apart, requirements={"job": (-1, -1)})
    job.store.asked = lifted
    assert running_on(until(job, 15 * MINUTES)) == 2
    job.store.asked = replace(lifted, calendar={"job": (-1, -1)})
    assert running_on(until(job, 20 * MINUTES)) == 4


def test_load_moves_within_the_bounds_of_a_calendar_that_is_kept_apart():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    job.store.asked = ControlRequests(
        calendar={"job": (3, 4)}, calendar_requester=Requester(requested_by="calendar/set/r")
    )
    assert running_on(until(job, 30 * MINUTES)) == 3
    load.rate = 900.0
    assert running_on(until(job, 40 * MINUTES)) == 4


# ---- telling only ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        calendar(look_ahead=None, dry_run=True),
        CombinedPolicy(calendar=calendar(look_ahead=None), dry_run=True),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_dry_run_only_tells_what_it_would_do(policy: Any):
    job = following(policy)
    assert running_on(until(job, 90 * MINUTES)) == 4, "what its DAG declares"
    told = [text for text in reasons(job) if text.startswith("dry run: ")]
    assert [text.split(" (")[0] for text in told] == [
        "dry run: calendar would set job 1-2",
        "dry run: calendar would set job 3-4",
    ]
    assert by(job) == ("DAG", "dag")
    assert (shown(job)["policy"]["dry_run"], shown(job)["policy"]["acts"]) == (True, False)


def test_load_policy_in_a_dry_run_tells_as_well():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5), dry_run=True), (1, 4))
    load.rate = 60.0
    assert running_on(until(job, 30 * MINUTES)) == 4
    assert any(text.startswith("dry run: load would set job 1-1") for text in reasons(job))


def test_policy_that_becomes_a_dry_run_gives_the_bounds_back():
    job = following(calendar(look_ahead=None))
    assert running_on(until(job, 10 * MINUTES)) == 2
    job.follow(calendar(look_ahead=None, dry_run=True))
    assert running_on(until(job, 20 * MINUTES)) == 4


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_policy_that_raises_leaves_the_job_as_it_is_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    job = following(calendar(look_ahead=None))
    until(job, 10 * MINUTES)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a calendar of no days")

    monkeypatch.setattr(ScheduledPolicy, "outlook", broken)
    with caplog.at_level(logging.WARNING):
        assert running_on(until(job, 80 * MINUTES)) == 2
    assert caplog.text.count("The rescale policy is not followed: ZeroDivisionError: a calendar of no days") == 1
    assert sum("is not followed" in text for text in reasons(job)) == 1
    assert shown(job)["policy"]["problem"] == "ZeroDivisionError: a calendar of no days"


def test_bounds_of_a_person_that_expire_leave_a_job_whose_policy_fails_to_its_dag():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    asks(job, (1, 1), expires=10 * MINUTES)
    assert running_on(until(job, 9 * MINUTES)) == 1
    assert running_on(until(job, 11 * MINUTES)) == 4
    assert by(job) == ("DAG", "dag")


def test_bounds_of_a_person_that_expire_before_the_load_policy_knows_anything_stay_until_it_does():
    job = following(LoadPolicy(), (1, 8))
    asks(job, (2, 2), expires=5 * MINUTES)
    assert running_on(until(job, 10 * MINUTES)) == 2
    assert by(job) == ("POLICY", "LoadPolicy")
    load = Load(job, rate=700.0)
    job.drivers.measures, job.drivers.commits = load, False
    assert running_on(until(job, 20 * MINUTES)) == 8


def test_job_that_is_deployed_with_other_bounds_does_not_jump_to_them_before_its_policy_is_asked():
    job = following(calendar(window("always", (1, 2), start="00:00", end="24:00")), (1, 2))
    until(job, 10 * MINUTES)
    job.spec = replace(job.spec, graph=roomy((1, 8)).spec.graph)
    assert running_on(until(job, 20 * MINUTES)) == 2
    assert not any("by the DAG" in text for text in reasons(job))


def test_policy_that_wants_more_than_the_job_can_have_changes_nothing_and_says_what():
    job = following(calendar(window("too much", 9, start="00:00", end="24:00")))
    assert running_on(until(job, 10 * MINUTES)) == 4
    assert "above its max_parallelism 4: lower it" in shown(job)["policy"]["problem"]


def test_policy_that_this_version_can_not_read_costs_the_job_nothing():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    assert running_on(until(job, 10 * MINUTES)) == 4
    assert "this version cannot read the policy" in shown(job)["policy"]["problem"]


def test_memory_that_can_not_be_read_is_begun_anew_with_a_word_in_the_timeline():
    job, load = loaded(LoadPolicy(), (1, 8))
    load.rate = 300.0
    before = running_on(until(job, 10 * MINUTES))
    newest = max(job.channel.journal)
    document = json.loads(job.channel.journal[newest])
    document["requirements_resolver"]["policy"]["memory"] = {"queries": "of another version"}
    job.channel.journal[newest] = json.dumps(document).encode()
    assert running_on(until(job, 20 * MINUTES)) == before
    assert sum("memory of the policy is invalid and is discarded" in text for text in reasons(job)) == 1


def test_loop_that_is_killed_between_the_advice_and_the_deed_is_followed_by_one_that_does_it():
    job = following(calendar(look_ahead=None))
    until(job, 59 * MINUTES)
    write = job.channel.create

    async def killed(document: Any) -> bool:
        if any("morning" in decision["reason"] for decision in document.decisions):
            raise KeyboardInterrupt
        return await write(document)

    job.channel.create = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        until(job, 62 * MINUTES)
    job.channel.create = write  # type: ignore[method-assign]
    assert running_on(until(job, 63 * MINUTES)) == 4


def test_another_policy_takes_effect_when_the_job_is_taken_up_with_new_code():
    job = following(calendar(look_ahead=None))
    assert running_on(until(job, 10 * MINUTES)) == 2
    job.follow(calendar(window("always", 3, start="00:00", end="24:00")))
    assert running_on(until(job, 20 * MINUTES)) == 3
    job.follow(None)
    assert running_on(until(job, 30 * MINUTES)) == 4, "what its DAG declares"
    assert by(job) == ("DAG", "dag")


def test_what_a_policy_has_learned_outlives_the_loop():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    until(job, 20 * MINUTES)
    kept = advisors.PolicyAdvisor(LoadPolicy())
    assert (
        kept.restore(decode_journal(job.channel.journal[max(job.channel.journal)]).requirements_resolver["policy"])
        is None
    )
    assert kept.to_snapshot()["memory"]["rescales"]


def test_looks_that_change_nothing_write_nothing():
    job, _ = loaded(LoadPolicy(), (1, 2))
    until(job, 20 * MINUTES)
    before = len(job.channel.journal)
    until(job, 20 * MINUTES + 25 * MINUTES)
    assert len(job.channel.journal) - before <= 3, "the next loop's claim, and what keeps the memory young"


def test_clock_that_was_set_back_or_forward_between_two_loops_leads_to_no_rescale_by_load():
    for hours in (-5, 5):
        job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
        load.rate = 300.0
        before = running_on(until(job, 10 * MINUTES))
        load.rate, known = 290.0, len(job.drivers.started)
        job.clock._now += timedelta(hours=hours)
        state = job.run(RunLimits(recycle_at=job.clock.now() + timedelta(minutes=20)))
        assert (running_on(state), len(job.drivers.started)) == (before, known)


def test_suspended_job_is_resumed_within_what_the_policy_asks_for():
    job = following(calendar(look_ahead=None))
    job.clock.at(
        10 * MINUTES, lambda: setattr(job.store, "asked", ControlRequests(desired_state=DesiredState.SUSPENDED))
    )
    job.run_to_end()
    job.store.asked, job.spec = ControlRequests(), replace(job.spec, attempt="attempt-2")
    job.clock._now = START + timedelta(minutes=70)
    assert running_on(job.run(RunLimits(recycle_at=START + timedelta(minutes=75)))) == 4


FIGURES = st.one_of(st.none(), st.floats(), st.integers(), st.booleans(), st.text(max_size=3))


@settings(max_examples=25, deadline=None)
@given(
    reports=st.lists(
        st.dictionaries(
            st.sampled_from(
                ["committed", "batch_rows", "batch_duration_ms", "input_rate", "backlog", "trigger_interval_ms", "idle"]
            ),
            FIGURES,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_a_driver_reports_the_bounds_stay_within_the_declared_ones(reports: list[dict[str, Any]]):
    seen = advisors.PolicyAdvisor(LoadPolicy())
    within_bounds(seen, reports)


def within_bounds(seen: advisors.PolicyAdvisor, reports: list[dict[str, Any]]) -> None:
    """Look at these reports one after the other, on a job that executes."""
    scenario, resolver = Scenario(1, 4), RequirementsResolver(seen)
    scenario.given_executing(2)
    for number, said in enumerate(reports * 3):
        given: dict[str, Any] = {"name": "q", "active": True}
        query = QueryReport(**(given | said))
        status = DriverStatus(
            job="job", epoch=1, nonce="n", sequence=number, at="", state=DriverState.RUNNING, queries=(query,)
        )
        at = START + timedelta(seconds=20 * number)
        ruling = resolver.resolve(
            ResolverInput(state=scenario.state, control_requests=ControlRequests(), status=status, costs={}, at=at)
        )
        assert ruling is not None
        bounds = ruling.requirements["job"]
        assert 1 <= bounds.lower <= bounds.upper <= 4
        json.dumps(resolver.to_snapshot(), allow_nan=False)
