"""Extra links of the operator: buttons in Airflow's UI that lead to Spark's.

The trigger pushes the addresses while the job runs; Airflow asks `get_link` at the end of each slice on a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from airflow_adaptive.hooks.asset_store import XCOM_DRIVER_URL, XCOM_MASTER_URL

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


@attrs.define
class SparkMasterLink(BaseOperatorLink):
    """The web UI of the Spark master that the job runs on."""

    name = "Spark master UI"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_MASTER_URL

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address, "" while it is unknown."""
        return _url(self.xcom_key, ti_key)


@attrs.define
class SparkDriverLink(BaseOperatorLink):
    """The web UI of the job's driver: its queries, batches and executors."""

    name = "Spark driver UI"

    @property
    def xcom_key(self) -> str:
        """XCom that holds the address."""
        return XCOM_DRIVER_URL

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address, "" while it is unknown."""
        return _url(self.xcom_key, ti_key)


def _url(xcom_key: str, ti_key: TaskInstanceKey) -> str:
    return XCom.get_value(ti_key=ti_key, key=xcom_key) or ""
