"""Extra links of the operator: buttons in Airflow's UI that lead to Spark's.

The trigger pushes the addresses while the job runs; Airflow asks `get_link` at the end of each slice on a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from airflow_adaptive.stores.task_xcoms import (
    XCOM_DRIVER_URL,
    XCOM_EXECUTORS_URL,
    XCOM_MASTER_URL,
    XCOM_STDERR_URL,
    XCOM_STDOUT_URL,
)

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class _PushedLink(BaseOperatorLink):
    """A button that leads to the address under `xcom_key`."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address, "" while it is unknown."""
        return XCom.get_value(ti_key=ti_key, key=self.xcom_key) or ""


@attrs.define
class SparkMasterLink(_PushedLink):
    """The web UI of the Spark master that the job runs on."""

    name = "Spark master UI"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_MASTER_URL


@attrs.define
class SparkDriverLink(_PushedLink):
    """The web UI of the job's driver: its queries, batches and stages."""

    name = "Spark driver UI"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_DRIVER_URL


@attrs.define
class SparkExecutorsLink(_PushedLink):
    """The executors in the driver's web UI, with the log of each."""

    name = "Spark executors"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_EXECUTORS_URL


@attrs.define
class SparkDriverOutputLink(_PushedLink):
    """What the script and the job's runtime print, on the driver's worker; also after the driver's end."""

    name = "Spark driver stdout"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_STDOUT_URL


@attrs.define
class SparkDriverLogLink(_PushedLink):
    """Spark's own log of the driver, on the driver's worker; also after the driver's end."""

    name = "Spark driver stderr"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_STDERR_URL


ALL_LINKS = (SparkMasterLink(), SparkDriverLink(), SparkExecutorsLink(), SparkDriverOutputLink(), SparkDriverLogLink())
"""In the order in which the operator shows them."""
