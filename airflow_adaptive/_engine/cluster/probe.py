"""Decides when a job may plan on slots that do not exist yet. Pure.

Theory: some clusters grow on demand, and other clusters do not show how much fits. Only a request for an executor shows whether the executor
gets a worker. A probe is such a request: for a while, the job is offered the slots that could exist, so
the scheduler plans on them, and the driver requests the executors. A cluster that grows has the time `probe_timeout` to start
workers. Afterwards only the slots that arrived are offered, and the scheduler makes a plan for them, as after any loss of slots. A probe that
brought fewer slots than planned is repeated after `probe_interval`, which doubles each time, because each probe is a rescale. (Flink:
declarative resource management on an elastic cluster.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.state import Deploying, Executing, SchedulerState

MAX_FAILURES: Final = 16
"""Doublings of the interval; more of them would exceed the range of times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The probe of one job: the one that runs, or the time before the next one.

    Attributes:
        deployed_at: when the job began to deploy a plan on offered slots, None before and between probes.
        planned: most slots that the job has planned in this probe.
        failures: number of probes, one after the other, that brought fewer slots than planned.
        sufficed: whether the job could run after the last probe, so that a restart of the job does not have to wait for the next probe.
        offered: whether the newest observation offered slots that do not exist yet.
        not_before: when the next probe may begin, None for at once.
    """

    deployed_at: datetime | None = None
    planned: int = 0
    failures: int = 0
    not_before: datetime | None = None
    sufficed: bool = True
    offered: bool = False

    def advance(self, state: SchedulerState, now: datetime) -> Probe:
        """Return the probe for the observation that follows this state."""
        if isinstance(state.current, Deploying):
            probe = self._deploying(state.current)
        else:
            probe = self if self.deployed_at is None else self._ended(state, now)
        return replace(probe, offered=probe._offers(state, now))

    def _offers(self, state: SchedulerState, now: datetime) -> bool:
        if self.deployed_at is not None:
            return now < self.deployed_at + _timeout(state.options)
        is_due = self.not_before is None or self.not_before <= now
        if isinstance(state.current, Deploying | Executing):
            return is_due
        return is_due or self.sufficed

    def _deploying(self, deploying: Deploying) -> Probe:
        """Begin the probe with the first plan on offered slots, or follow the plans of the probe."""
        if self.deployed_at is None and not self.offered:
            return self
        planned = max(self.planned, deploying.plan.slots)
        return replace(self, deployed_at=self.deployed_at or deploying.since, planned=planned)

    def _ended(self, state: SchedulerState, now: datetime) -> Probe:
        """Wait if the time has passed with fewer slots. An earlier end, for example a failure of the driver, shows nothing."""
        if state.held_slots >= self.planned:
            return Probe()
        if self._offers(state, now):
            return Probe(failures=self.failures, sufficed=self.sufficed)
        interval = state.options.probe_interval * 2 ** min(self.failures, MAX_FAILURES)
        sufficed = isinstance(state.current, Executing)
        return Probe(failures=self.failures + 1, not_before=now + interval, sufficed=sufficed)


def _timeout(options: Options) -> timedelta:
    return min(options.probe_timeout, options.deploy_timeout)
