"""Runs one loop over the real ports, without Airflow, in a process of its own: `python -m tests.faults.runner <config>`.

Exit code 0 when the job has ended or the loop's lifetime is over, `SUPERSEDED` when another loop has taken over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from airflow_adaptive.ports import Inbox, Wish
from airflow_adaptive.runtime import journal
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.job_directory import JobDirectory
from airflow_adaptive.runtime.journal import SupersededError
from airflow_adaptive.runtime.loop import Leave, Loop, Ports
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.runtime.storage import Storage
from airflow_adaptive.scheduler.snapshot import decode
from airflow_adaptive.spark.address import parse_address
from airflow_adaptive.spark.standalone import StandaloneCluster
from tests.faults.death import Death

log = logging.getLogger(__name__)

SUPERSEDED = 3

COMPACT_EVERY = 10
"""Documents; often, so that it happens in a test."""


class FileStore:
    """A `JobStore`: wishes come from a file."""

    def __init__(self, wishes: Path) -> None:
        self._wishes = wishes

    async def inbox(self) -> Inbox:
        wishes = json.loads(self._wishes.read_text())
        requirements = {name: (lower, upper) for name, (lower, upper) in wishes["requirements"].items()}
        return Inbox(wish=Wish(wishes["wish"]), requirements=requirements)

    async def publish(self, view: Mapping[str, object]) -> None:
        log.info("%s %s", view["state"], view["parallelism"])


async def run(config: Mapping[str, Any]) -> None:
    """Run the loop to its end."""
    spec = cast(JobSpec, decode(JobSpec, config["spec"]))
    death = Death(config["dies"])
    address = parse_address(config["master"], None, None, config["extra"])
    cluster = StandaloneCluster(address, transport=death.transport())
    clock = SystemClock()
    ports = Ports(
        cluster=cluster,
        channel=death.around(JobDirectory(Storage.at(config["base"]), spec.graph.job)),
        store=FileStore(Path(config["wishes"])),
        clock=clock,
    )
    lifetime = config["lifetime_s"]
    leave = Leave(recycle_at=None if lifetime is None else clock.now() + timedelta(seconds=lifetime))
    try:
        state = await Loop(spec, ports, random.random, leave).run()
        log.info("left in %s", state.current)
    finally:
        await cluster.close()


def main() -> int:
    """Read the configuration and run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    journal._COMPACT_EVERY = COMPACT_EVERY
    try:
        asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
    except SupersededError as error:
        log.warning("%s", error)
        return SUPERSEDED
    return 0


if __name__ == "__main__":
    sys.exit(main())
