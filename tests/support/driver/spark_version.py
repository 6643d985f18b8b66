"""The version of Spark that the tests of drivers run on, see `make test-spark-versions`."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark import __version__

from airflow_adaptive._core.protocol.documents import Capability
from airflow_adaptive.job.spark_internals import report_spark


def _needs(capability: Capability) -> pytest.MarkDecorator:
    lack = report_spark(__version__).lack(capability)
    return pytest.mark.skipif(bool(lack), reason=lack)


NEEDS_REPARTITION: Final = _needs(Capability.REPARTITION)
"""Mark of a test that changes the number of state partitions."""

NEEDS_REAL_TIME_MODE: Final = _needs(Capability.REAL_TIME_MODE)
"""Mark of a test with a query in Real-Time Mode."""
