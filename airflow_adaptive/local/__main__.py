"""`python -m airflow_adaptive.local cluster`: a cluster on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.errors import LocalClusterError

LEAST_MEMORY_MB = 450
"""A worker with less can run neither a driver nor an executor (`org.apache.spark.memory.UnifiedMemoryManager`)."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 1 if the cluster can't start."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with LocalCluster(options.directory) as cluster:
            for _ in range(options.workers):
                cluster.add_worker(options.cores, options.memory)
            _show(cluster)
            signal.pause()
    except LocalClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m airflow_adaptive.local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    cluster = commands.add_parser("cluster", help="run a Spark standalone cluster until Ctrl-C")
    memory = at_least(LEAST_MEMORY_MB)
    cluster.add_argument("--workers", type=at_least(0), default=2, help="number of workers (default: %(default)s)")
    cluster.add_argument("--cores", type=at_least(1), default=1, help="cores of each worker (default: %(default)s)")
    cluster.add_argument(
        "--memory", type=memory, default=1024, help="memory of each worker, MiB (default: %(default)s)"
    )
    cluster.add_argument("--directory", type=Path, help="for logs and work (default: a temporary one)")
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number from `least`; raises what argparse tells its user."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least}")
        return int(text)

    return read


def _show(cluster: LocalCluster) -> None:
    ports = {"ui-port": urlsplit(cluster.ui_url).port, "rest-port": urlsplit(cluster.rest_url).port}
    connection = json.dumps({"conn_type": "spark", "host": cluster.master_url, "extra": ports})
    sys.stdout.write(
        f"master  {cluster.master_url}\n"
        f"REST    {cluster.rest_url}\n"
        f"UI      {cluster.ui_url}\n"
        f"logs    {cluster.directory / 'logs'}; what drivers print: {cluster.directory / 'work'}\n"
        "As Airflow's default Spark connection:\n"
        f"export AIRFLOW_CONN_SPARK_DEFAULT='{connection}'\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
