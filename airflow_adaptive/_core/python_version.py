"""The Python of the driver: its oldest version, and what newer versions have and that one lacks.

Images of Spark have older versions of Python than Airflow. This module runs in every version of Python 3.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timezone
from enum import Enum

OLDEST_PYTHON = (3, 10)

UTC = timezone.utc  # noqa: UP017  (Python 3.11)


class UnsupportedVersionError(RuntimeError):
    """The driver does not support its version of Python or Spark. A restart does not help."""


class StrEnum(str, Enum):  # noqa: UP042  (Python 3.11)
    """An enumeration whose members are strings."""

    def __str__(self) -> str:
        return str(self.value)


def require_python(version: Sequence[int] = sys.version_info[:3]) -> None:
    """Raise `UnsupportedVersionError` if the version of Python is too old."""
    if tuple(version) < OLDEST_PYTHON:
        found, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST_PYTHON))
        raise UnsupportedVersionError(
            f"the driver runs Python {found}, and airflow-adaptive supports Python {oldest} and later: install a newer Python on the cluster, and "
            "name it in spark.pyspark.python, or use an image that contains one"
        )
