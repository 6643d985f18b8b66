"""Extra links of the operator: buttons in Airflow's UI that lead to Spark's web UIs.

The control loop pushes the URLs as XComs while the job runs. Airflow calls `get_link` each time that the task leaves a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from airflow_adaptive._airflow.internals import XCom
from airflow_adaptive._airflow.store.task_xcoms import (
    XCOM_DRIVER_URL,
    XCOM_EXECUTORS_URL,
    XCOM_MASTER_URL,
    XCOM_STDERR_URL,
    XCOM_STDOUT_URL,
)
from airflow_adaptive._core.view import is_web_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class _XComLink(BaseOperatorLink):
    """A link to the URL in the XCom `xcom_key`."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL, or an empty text while the URL is unknown. A driver can report any text, so only web addresses count.

        Airflow logs each XCom that does not exist as an error, which would hide the error of a task that failed before it began, for
        example because of a template.
        """
        if not getattr(operator, "has_links", False):
            return ""
        url = XCom.get_value(ti_key=ti_key, key=self.xcom_key)
        return url if is_web_address(url) else ""


class SparkMasterLink(_XComLink):
    """Link to the web UI of the Spark master of the job."""

    name = "Spark master UI"
    xcom_key = XCOM_MASTER_URL


class SparkDriverLink(_XComLink):
    """Link to the web UI of the driver, with its queries, batches and stages."""

    name = "Spark driver UI"
    xcom_key = XCOM_DRIVER_URL


class SparkExecutorsLink(_XComLink):
    """Link to the executors in the web UI of the driver, with their logs."""

    name = "Spark executors"
    xcom_key = XCOM_EXECUTORS_URL


class SparkDriverOutputLink(_XComLink):
    """Link to the standard output of the driver, also after the end of the driver."""

    name = "Spark driver stdout"
    xcom_key = XCOM_STDOUT_URL


class SparkDriverLogLink(_XComLink):
    """Link to the Spark log of the driver, also after the end of the driver."""

    name = "Spark driver stderr"
    xcom_key = XCOM_STDERR_URL


ALL_LINKS = (SparkMasterLink(), SparkDriverLink(), SparkExecutorsLink(), SparkDriverOutputLink(), SparkDriverLogLink())
"""Links of the operator, in the order of the buttons."""
