"""A rescale tier: the real loop over the real client, a real script, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, JournalDocument
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive._engine.staging import stage
from tests.lab.benchmarks.rescale import processes
from tests.lab.benchmarks.rescale.case import SLOTS, Case, Found, Subject, all_measured, ended, journal, measure, seed
from tests.lab.benchmarks.rescale.measurements import Order, Repeat, longest_pause, missed, period, worst_delay
from tests.lab.benchmarks.rescale.spark.places import STANDALONE, Place, archive_conf, running_place
from tests.lab.benchmarks.rescale.spark.spark_log import (
    Events,
    executors_changed,
    query_restarted,
    read_events,
    read_files_logged,
    seen,
)
from tests.lab.faults.harness.watched_job import WatchedJob
from tests.support.repository import ROOT

JOB: Final = "count"
SCRIPT: Final = Path(__file__).with_name("job_script.py")

PARTITIONS: Final = 4
"""Of the state; tier 2 halves and doubles them."""

START_S: Final = 900.0
EFFECT_S: Final = 120.0

NO_WAIT: Final[dict[str, Any]] = dict.fromkeys(
    ("resource_stabilization_timeout", "scaling_interval_min", "executing_stabilization_timeout"), "0 s"
)


class SparkSubject(Subject):
    """The job on its cluster."""

    def __init__(self, place: Place, root: Path, tier: Tier, conf: Mapping[str, str]) -> None:
        """Stage the script; nothing runs yet."""
        for folder in ("loops", "events", "out", "jobs", f"jobs/{JOB}"):
            (root / folder).mkdir()
            (root / folder).chmod(0o777)  # The user of containers is another one.
        self.job = WatchedJob(place.cluster, root, root / "jobs", JOB)
        self._place = place
        self._tier = tier
        self._directory = FsspecJobDirectory(Storage.at(str(self.job.base)), JOB)
        code = asyncio.run(stage(self._directory, SCRIPT))
        self._spec = JobSpec(
            graph=JobGraph.single(JOB, ParallelismRange(1, SLOTS), max_parallelism=PARTITIONS),
            # Surplus executors are kept for a while, except where they are all that is to go.
            options=Options.of({**NO_WAIT, **({"slot_idle_timeout": 0} if tier is Tier.EXECUTORS else {})}),
            directory=self._directory.uri,
            script=code.script,
            py_files=code.py_files,
            args=(str(root), "reads" if tier is Tier.QUERY else ""),
            conf={
                **place.conf,
                **conf,
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": (root / "events").as_uri(),
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
                # These files are near: the driver lists them faster than a task for each does, once there are many.
                "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
            },
            driver=place.driver,
            executor=place.executor,
        )
        self._attempt = 0
        self._before: DriverStatus | None = None
        self._loops: list[subprocess.Popen[bytes]] = []
        self._known: set[str] = set()
        self._counts: dict[int, int] = {}
        self._request("running", SLOTS)

    # ---- the job ----

    def deploy(self) -> float:
        """Let a new attempt's loop take the job over; when it did."""
        self._attempt += 1
        spec = replace(self._spec, attempt=str(self._attempt))
        config = {
            "spec": encode(spec),
            "base": str(self.job.base),
            **self._place.loop_config(),
            "requests": str(self.job.root / "requests.json"),
            "dies": "",
            "lifetime_s": None,
        }
        file = self.job.root / "loops" / f"{self._attempt:03}.json"
        file.write_text(json.dumps(config))
        command = [sys.executable, "-m", self._place.loop, str(file)]
        loop = processes.start(command, file.with_suffix(".log"), cwd=ROOT)
        older, self._loops = self._loops, [loop]
        newest = self.job.wait_for("the new loop's first document", self._own_document, EFFECT_S)
        processes.end(older)
        return datetime.fromisoformat(newest.at).timestamp()

    def wait_batches(self, count: int, timeout_s: float) -> None:
        """Wait for so many more batches than there are now."""
        now = self.job.wait_for("a report of a query", self._runs, timeout_s)
        goal = now.queries[0].batch_id + count
        self.job.wait_for("batches", lambda: (self._runs() or now).queries[0].batch_id >= goal, timeout_s)

    def warm_up(self) -> None:
        """See `Subject`."""
        self.wait_batches(3, START_S)

    def end(self) -> None:
        """Stop it at a batch boundary, and wait for the end of its driver: then its event log is complete."""
        self._request("suspended", SLOTS)
        self.job.wait_for("the loop's end", lambda: all(map(ended, self._loops)), EFFECT_S)
        self.job.wait_for("the driver's end", lambda: not self._place.has_drivers(), EFFECT_S)

    def close(self) -> None:
        """End the loops that are left."""
        processes.end(self._loops)

    # ---- a rescale ----

    def order(self, slots: int) -> float:
        """Another upper bound (tiers 0 and 1), maximum parallelism (tier 2) or Spark property (tier 3)."""
        self._before = self.job.wait_for("a report of a query", self._runs, EFFECT_S)
        if self._tier in {Tier.EXECUTORS, Tier.QUERY}:
            return self._request("running", slots)
        if self._tier is Tier.STATE:
            graph = JobGraph.single(JOB, ParallelismRange(1, SLOTS), max_parallelism=PARTITIONS // SLOTS * slots)
            self._spec = replace(self._spec, graph=graph)
        else:
            conf = {**self._spec.conf, "spark.benchmark.deployment": str(self._attempt)}
            self._spec = replace(self._spec, conf=conf)
        return self.deploy()

    def wait_effect(self) -> None:
        """Wait until another plan is active, and for two batches on it."""
        before = self._before
        self.job.wait_for("the active plan", lambda: self._is_after(before), EFFECT_S)
        self.wait_batches(2, EFFECT_S)

    def _is_after(self, before: DriverStatus | None) -> bool:
        now = self._runs()
        if now is None or before is None:
            return False
        if now.rejected_version:
            raise RuntimeError(f"the rescale was refused: {now.rejection}")
        return (now.epoch, now.version) > (before.epoch, before.version) and now.queries[0].active

    def _runs(self) -> DriverStatus | None:
        status = self.job.status()
        if status is not None and status.state is DriverState.FAILED:
            raise RuntimeError(f"the query failed: {status.failure}")
        if any(map(ended, self._loops)):
            raise RuntimeError("the loop has ended")
        runs = status is not None and status.state is DriverState.RUNNING and status.queries
        return status if runs else None

    def _own_document(self) -> JournalDocument | None:
        """The newest document, if the newest loop wrote it."""
        if any(map(ended, self._loops)):
            raise RuntimeError("the loop has ended")
        newest = self.job.newest()
        return newest if newest is not None and newest.owner.partition("#")[0] == str(self._attempt) else None

    def _request(self, desired_state: str, slots: int) -> float:
        self.job.write_requests(desired_state, {"job": (1, slots)})
        return (self.job.root / "requests.json").stat().st_ctime

    # ---- what came out ----

    def counted(self) -> Sequence[Mapping[int, int]]:
        """The newest count of each key."""
        folders = [it for it in (self.job.root / "out").iterdir() if it.name.isdecimal() and it.name not in self._known]
        for folder in sorted(folders, key=lambda it: int(it.name)):
            if (folder / "_SUCCESS").exists():
                self._known.add(folder.name)
                self._count(folder)
        return (self._counts,)

    def _count(self, folder: Path) -> None:
        for line in (line for file in folder.glob("part-*.csv") for line in file.read_text().splitlines()):
            key, count = line.split(",")
            self._counts[int(key)] = int(count)

    def forget(self) -> None:
        """See `Subject`."""
        self._known.clear()
        self._counts.clear()

    def measured(self, given: Sequence[Order]) -> tuple[float, list[Repeat], str]:
        """See `Subject`."""
        events = read_events(self.job.root / "events")
        batches = events.batches
        logged = read_files_logged(self.job.directory / "checkpoints" / JOB / "sources" / "0")
        visible, came = seen(batches, logged), journal(self.job.root / "in")
        pace = period(batches, given)
        repeats, wrong = all_measured(given, lambda order: self._repeat(events, order, pace, came, visible))
        return pace, repeats, wrong

    def _repeat(
        self,
        events: Events,
        order: Order,
        pace: float,
        came: dict[int, float],
        visible: dict[int, float],
    ) -> Repeat:
        effect = executors_changed(events, order) if self._tier is Tier.EXECUTORS else query_restarted(events, order)
        return Repeat(
            slots=order.slots,
            dead_s=effect.dead_s,
            missed=missed(effect.dead_s, longest_pause(events.batches, order.steady), pace),
            effect_s=effect.begun - order.window.begin,
            slot_s=effect.there - order.window.begin,
            delay_s=worst_delay(came, visible, order.window),
            steady_delay_s=worst_delay(came, visible, order.steady),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCase(Case):
    """A tier.

    Attributes:
        tier: the tier.
        where: the cluster.
        archive: of classes, for the driver and the executors.
    """

    tier: Tier
    where: str = STANDALONE
    archive: Path | None = None

    def run(self, root: Path, *, repeats: int, warm_up: int, deadline: float, files: int) -> Found:
        """See `Case`."""
        with ExitStack() as stack:
            place = stack.enter_context(running_place(self.where, root))
            seed(root / "in", self.keys)
            subject = SparkSubject(place, root, self.tier, archive_conf(self.archive) if self.archive else {})
            stack.callback(subject.close)
            subject.deploy()
            subject.wait_batches(0, START_S)
            return measure(self, subject, root / "in", repeats=repeats, warm_up=warm_up, deadline=deadline, files=files)
