"""Runs a loop on Kubernetes, without Airflow, in a process: `python -m tests.lab.benchmarks.rescale.spark.kubernetes_loop <config>`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes_asyncio import config as kubeconfig
from kubernetes_asyncio.client import ApiClient

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.journal import SupersededError
from tests.lab.faults.harness.death import Death
from tests.lab.faults.harness.loop_process import SUPERSEDED, run_one


class FileSource:
    """An `ApiSource` with the credentials of a file that do not expire."""

    def __init__(self, file: str) -> None:
        """Open nothing yet."""
        self._file = file
        self._client: ApiClient | None = None

    async def client(self) -> ApiClient:
        """See `ApiSource`."""
        if self._client is None:
            self._client = await kubeconfig.new_client_from_config(self._file)
        return self._client

    async def renew(self, refused: ApiClient) -> bool:
        """See `ApiSource`."""
        return False

    def explain_refusal(self) -> str:
        """See `ApiSource`."""
        return "replace the kubeconfig"

    async def close(self) -> None:
        """See `ApiSource`."""
        if self._client is not None:
            await self._client.close()


async def run(config: Mapping[str, Any]) -> None:
    """Run the loop to its end."""
    address = KubernetesAddress(server=config["server"], namespace=config["namespace"])
    client = KubernetesCluster(address, FileSource(config["kubeconfig"]), SystemClock())
    try:
        await run_one(client, SharedCluster(SystemClock()), config, Death("", None))
    finally:
        await client.close()


def main() -> int:
    """Read the configuration and run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
    except SupersededError as error:
        logging.getLogger(__name__).warning("%s", error)
        return SUPERSEDED
    return 0


if __name__ == "__main__":
    sys.exit(main())
