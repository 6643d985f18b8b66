"""Runs loops over the real ports, without Airflow, in one process: `python -m tests.lab.faults.harness.loop_process <config>...`.

The loops of several jobs share their cluster, as in a triggerer. Exit code 0 when all jobs have ended or the loops' lifetime
is over, `SUPERSEDED` when another loop has taken over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from airflow_adaptive._clusters.standalone.address import parse_address
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterClient
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.view import JobView
from airflow_adaptive._engine.clock import Hint, SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal import journal
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports, RunLimits
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.faults.harness.death import Death

log = logging.getLogger(__name__)

SUPERSEDED = 3

REQUEST_INTERVAL_S = 0.5
"""Interval between two reads of the requests between two cycles, as in Airflow's store (`store_access.REQUEST_INTERVAL`)."""

COMPACT_EVERY = 10
"""Documents; often, so that it happens in a test."""


class FileStore:
    """A `JobStore` that reads the control requests from a file."""

    def __init__(self, requests: Path, hint: Hint) -> None:
        """Read the file in each cycle, and between two cycles as often as Airflow's store is read."""
        self._file = requests
        self._watching = asyncio.create_task(self._watch(hint))

    async def _watch(self, hint: Hint) -> None:
        known = self._file.stat().st_mtime_ns
        while True:
            await asyncio.sleep(REQUEST_INTERVAL_S)
            if (now := self._file.stat().st_mtime_ns) != known:
                known = now
                hint.give()

    async def control_requests(self) -> ControlRequests:
        requests = json.loads(self._file.read_text())
        requirements = {name: ParallelismRange.of(bounds) for name, bounds in requests["requirements"].items()}
        return ControlRequests(desired_state=DesiredState(requests["desired_state"]), requirements=requirements)

    async def publish_metrics(self, metrics: Mapping[str, object]) -> None:
        pass

    async def published_metrics(self) -> Mapping[str, object]:
        return {}

    async def publish(self, view: JobView) -> None:
        log.info("%s %s %s", view.job, view.state, view.parallelism)


async def run(configs: Sequence[Mapping[str, Any]]) -> None:
    """Run the loops to their ends."""
    first = configs[0]
    deaths = [Death(config["dies"], config.get("victim")) for config in configs]
    address = parse_address(first["master"], None, None, first["extra"])
    client, shared = StandaloneCluster(address, transport=deaths[0].transport()), SharedCluster(SystemClock())
    try:
        await asyncio.gather(*map(partial(run_one, client, shared), configs, deaths))
    finally:
        await client.close()


async def run_one(client: ClusterClient, shared: SharedCluster, config: Mapping[str, Any], death: Death) -> None:
    """Run the loop of one job."""
    spec, clock, hint = cast(JobSpec, decode(JobSpec, config["spec"])), SystemClock(), Hint()
    ports = Ports(
        cluster=client,
        directory=death.around(FsspecJobDirectory(Storage.at(config["base"]), spec.graph.job)),
        store=FileStore(Path(config["requests"]), hint),
        clock=clock,
        shared=shared,
        hint=hint,
    )
    lifetime = config["lifetime_s"]
    write_requests = RunLimits(recycle_at=None if lifetime is None else clock.now() + timedelta(seconds=lifetime))
    state = await Loop(spec, ports, write_requests).run()
    log.info("%s left in %s", spec.graph.job, state.current)


def main() -> int:
    """Read the configuration and run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    journal._COMPACT_EVERY = COMPACT_EVERY
    try:
        asyncio.run(run([json.loads(Path(file).read_text()) for file in sys.argv[1:]]))
    except SupersededError as error:
        log.warning("%s", error)
        return SUPERSEDED
    return 0


if __name__ == "__main__":
    sys.exit(main())
