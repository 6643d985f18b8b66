"""Probes: when a job is offered slots that do not exist yet, and what the real scheduler makes of the offers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from airflow_adaptive._core.scheduler.events import DriverSubmitted, SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.state import Deploying
from airflow_adaptive._engine.cluster.probe import MAX_FAILURES, Probe
from tests.lab.scenario import START, Scenario

WAITING = Scenario(8, 8).given_waiting().state.current

AT_ONCE: dict[str, Any] = {
    "scaling_interval_min": 0,
    "executing_stabilization_timeout": 0,
    "resource_stabilization_timeout": 0,
}


class ElasticJob:
    """A job on a cluster that adds slots some seconds after they were planned.

    Attributes:
        existing: slots that exist.
        plans: seconds and slots of each plan that differs from the one before.
    """

    def __init__(self, existing: int, cap: int, arriving: int, *, delay_s: int = 60, lower: int = 1, **options: Any):
        self.job = Scenario(lower, 8, **{**AT_ONCE, **options}).given_waiting()
        self.probe = Probe()
        self.existing = existing
        self.plans: list[tuple[int, int]] = []
        self._cap, self._arriving, self._delay_s = cap, arriving, delay_s
        self._planned_at: int | None = None

    @property
    def seconds(self) -> int:
        return round((self.job.now - START).total_seconds())

    def run(self, seconds: int) -> ElasticJob:
        for _ in range(seconds):
            self.job.after(1)
            self._grow()
            self._observe()
            self._record()
        return self

    @property
    def _planned(self) -> int:
        plan = self.job.state.plan
        return 0 if plan is None else plan.slots

    def _grow(self) -> None:
        if self._planned <= self.existing:
            self._planned_at = None
        elif self._planned_at is None:
            self._planned_at = self.seconds
        elif self.seconds >= self._planned_at + self._delay_s:
            self.existing = max(self.existing, min(self._planned, self._arriving))

    def _observe(self) -> None:
        """Do what the loop does in one cycle."""
        self.probe = self.probe.advance(self.job.state, self.job.now)
        possible = self._cap if self.probe.offered else self.existing
        held = min(self._planned, self.existing)
        offers = (SlotOffer(worker="w", held=held, free=max(possible - held, 0)),)
        if offers != self.job.state.offers:
            self.job.when(SlotsChanged(at=self.job.now, offers=offers))
        if isinstance(self.job.state.current, Deploying) and not self.job.state.current.active:
            registered = {"submission_id": "driver", "application_id": "app"}
            self.job.when(DriverSubmitted(at=self.job.now, epoch=self.job.state.epoch, **registered))
            self.job.when_plan_activated()

    def _record(self) -> None:
        if self._planned and (not self.plans or self.plans[-1][1] != self._planned):
            self.plans.append((self.seconds, self._planned))


def test_a_cluster_that_grows_gives_the_job_all_its_slots():
    job = ElasticJob(existing=2, cap=16, arriving=16).run(120)
    assert [slots for _, slots in job.plans] == [8]
    assert job.existing == 8
    assert job.probe == Probe(offered=True)


def test_a_cluster_that_is_empty_is_probed_for_the_first_slots():
    job = ElasticJob(existing=0, cap=4, arriving=4).run(120)
    assert [slots for _, slots in job.plans] == [4]


def test_only_the_slots_that_arrived_remain_after_the_timeout():
    job = ElasticJob(existing=2, cap=16, arriving=5).run(302)
    assert [slots for _, slots in job.plans] == [8, 5]
    assert job.plans[1][0] - job.plans[0][0] == 300
    assert job.probe.failures == 1


def test_timeout_is_that_of_the_option_and_at_most_that_of_a_deployment():
    short = ElasticJob(existing=2, cap=16, arriving=2, probe_timeout="30 s").run(200)
    assert [second for second, _ in short.plans] == [1, 31]
    bounded = ElasticJob(existing=2, cap=16, arriving=2, deploy_timeout="50 s").run(200)
    assert [second for second, _ in bounded.plans] == [1, 51]


def test_a_probe_that_brought_fewer_slots_is_repeated_after_an_interval_that_doubles():
    job = ElasticJob(existing=2, cap=16, arriving=2, probe_timeout="1 min", probe_interval="10 min").run(4500)
    begins = [second for second, slots in job.plans if slots == 8]
    waited = [later - earlier - 60 for earlier, later in pairwise(begins)]
    assert [round(seconds, -2) for seconds in waited] == [600, 1200, 2400]
    assert job.probe.failures == 4


def test_a_probe_that_brought_all_slots_resets_the_interval():
    job = ElasticJob(existing=2, cap=16, arriving=2, probe_timeout="1 min").run(120)
    assert job.probe.failures == 1
    job._arriving = 16
    job.run(720)
    assert job.probe == Probe(offered=True)
    assert job.existing == 8


def test_a_cluster_at_its_cap_is_not_probed():
    job = ElasticJob(existing=4, cap=4, arriving=16).run(1000)
    assert [slots for _, slots in job.plans] == [4]
    assert job.probe == Probe(offered=True)


def test_a_failure_during_a_probe_is_no_result():
    job = Scenario(1, 8, resource_stabilization_timeout=0).given_waiting(free=8)
    assert isinstance(job.state.current, Deploying)
    probe = Probe(failures=2, offered=True).advance(job.state, job.now)
    assert probe.deployed_at == job.now
    ended = probe.advance(replace(job.state, current=WAITING), job.now)
    assert ended == Probe(failures=2, offered=True)


def test_a_plan_between_two_probes_is_no_probe():
    job = Scenario(1, 8, resource_stabilization_timeout=0).given_waiting(free=2)
    between = Probe(failures=1, not_before=job.now + timedelta(minutes=5))
    assert between.advance(job.state, job.now) == between
    assert between.advance(job.state, job.now + timedelta(minutes=5)).offered


def test_a_job_that_could_run_is_offered_its_slots_again_after_a_restart():
    job = Scenario(1, 8).given_waiting()
    waiting = Probe(failures=1, not_before=job.now + timedelta(minutes=5))
    assert waiting.advance(job.state, job.now).offered
    assert not replace(waiting, sufficed=False).advance(job.state, job.now).offered


def test_a_job_whose_lower_bound_was_not_reached_waits_for_the_next_probe():
    job = ElasticJob(existing=0, cap=4, arriving=1, lower=3, probe_timeout="1 min", resource_wait_timeout=-1).run(120)
    assert not job.probe.sufficed
    assert job.probe.failures == 1


def test_the_interval_does_not_overflow():
    job = Scenario(1, 8).given_waiting()
    running = Probe(deployed_at=job.now - timedelta(hours=1), planned=8, failures=10**6)
    ended = running.advance(job.state, job.now)
    assert ended.not_before == job.now + timedelta(minutes=10) * 2**MAX_FAILURES
