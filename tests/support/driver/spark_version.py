"""The version of Spark that the tests of drivers run on, see `make test-spark-versions`."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark import __version__

from airflow_adaptive.job.protocol.documents import Capability
from airflow_adaptive.job.spark_internals import report_spark

LACK: Final = report_spark(__version__).lack(Capability.REPARTITION)

NEEDS_REPARTITION: Final = pytest.mark.skipif(bool(LACK), reason=LACK)
"""Mark of a test that changes the number of state partitions."""
