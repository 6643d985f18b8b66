"""One job in memory: the real loop with fakes of the cluster, the driver, the job directory, the store and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState
from airflow_adaptive._core.scheduler.timeline import Transition
from airflow_adaptive._engine.loop import Loop, Ports, RunLimits
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.autoscaling.advisor import Policy, advisor, policy_to_text
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fakes.manual_clock import ManualClock

MEMORY_MB = 512
"""Memory of a driver or an executor, in MiB."""


def small_job(name: str, parallelism: tuple[int, int], options: Mapping[str, object]) -> JobSpec:
    """Return a job of one vertex whose driver and executors have one core each."""
    return JobSpec(
        graph=JobGraph.single(name, ParallelismRange.of(parallelism)),
        options=Options.of(options),
        directory=f"file:///jobs/{name}",
        script=f"file:///jobs/{name}/code/script.py",
        py_files=(f"file:///jobs/{name}/code/runtime.zip",),
        driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
        executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        attempt="attempt-1",
    )


class Simulation:
    """Runs the loop of one job against fakes, in simulated time."""

    def __init__(self, parallelism: tuple[int, int] = (1, 4), **options: object) -> None:
        """Create an empty cluster and a job.

        Args:
            parallelism: bounds of the only vertex.
            options: options of the scheduler.
        """
        self.cluster = FakeCluster()
        self.directory = FakeJobDirectory()
        self.store = FakeStore()
        self.clock = ManualClock(self._tick)
        self.drivers = FakeDrivers(self.cluster, self.directory, self.elapsed_s)
        self.ports = Ports(cluster=self.cluster, directory=self.directory, store=self.store, clock=self.clock)
        self.spec = small_job("job", parallelism, options)

    def elapsed_s(self) -> float:
        """Return the time of the clock, in seconds since the start."""
        return self.clock.elapsed

    def loop(self, leave: RunLimits | None = None) -> Loop:
        """Return a loop that uses the fakes. Several loops can run in sequence or at the same time."""
        return Loop(self.spec, self.ports, leave, advisor(self.spec.rescale_policy))

    def follow(self, policy: Policy | None) -> None:
        """Set the rescale policy of the job for the following loops."""
        self.spec = replace(self.spec, rescale_policy=None if policy is None else policy_to_text(policy))

    def run(self, leave: RunLimits | None = None) -> SchedulerState:
        """Run a loop until the loop returns. Return the state of the scheduler."""
        return asyncio.run(self.loop(leave).run())

    def run_to_end(self) -> Finished:
        """Run a loop until the job has ended, and return the last state."""
        ended = self.run().current
        if isinstance(ended, Finished):
            return ended
        raise AssertionError(f"the job has not ended: {ended}")

    @property
    def states(self) -> list[str]:
        """States that the job has entered, in order."""
        return [transition.target for transition in self.transitions]

    @property
    def transitions(self) -> Sequence[Transition]:
        """Transitions in the newest view that was published."""
        return self.store.views[-1].history.transitions

    def _tick(self) -> None:
        """Let the drivers run, also while the master does not answer."""
        self.drivers.tick(self.cluster.states)
