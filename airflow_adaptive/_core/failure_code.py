"""The codes of errors, which are the headings of the page of errors.

The text of a failure of a job begins with its code: a `FailureCode`, the name of an exception, or an error condition of Spark. Every other error text ends
with the code of its exception in brackets.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_adaptive._core.python_version import StrEnum

DECLARATION: Final = "declaration"
"""Code of errors without a class of their own, and of several errors with different codes."""


def error_code(error: BaseException) -> str:
    """Return the code of an error: `cluster-unreachable` for a `ClusterUnreachableError`."""
    name = type(error).__name__
    return re.sub(r"\B([A-Z])", r"-\1", name.removesuffix("Error")).lower() if _is_own(error) else DECLARATION


def with_code(error: BaseException) -> str:
    """Return the text of an error with its code at the end. Some errors contain their code already."""
    own = getattr(error, "code", None) if _is_own(error) else None
    code = f" [{own or error_code(error)}]"
    return str(error).removesuffix(code) + code


def _is_own(error: BaseException) -> bool:
    return type(error).__module__.startswith(__package__.partition(".")[0])


class FailureCode(StrEnum):
    """The failures that this package finds itself: values of `Failure.error_class`, and of its causes."""

    APPLICATION_REMOVED = "APPLICATION_REMOVED"
    """The master removed the application, for example because its executors failed again and again."""
    BUILD_FUNCTION_ERROR = "BUILD_FUNCTION_ERROR"
    """First cause of a failure that the build function raised. The scheduler retries it only if the function has worked before."""
    DEPLOY_TIMEOUT = "DEPLOY_TIMEOUT"
    """A plan was not active in time."""
    DRIVER_HEARTBEAT_TIMEOUT = "DRIVER_HEARTBEAT_TIMEOUT"
    """The driver reported nothing within its lease."""
    DRIVER_LEASE_OVER = "DRIVER_LEASE_OVER"
    """The lease of the driver expired while its process was not known to have ended."""
    DRIVER_LOST = "DRIVER_LOST"
    """The process of the driver has ended without a reason of its own."""
    DRIVER_MOVED = "DRIVER_MOVED"
    """The driver has to leave its machine, which ends."""
    DRIVER_NOT_STARTED = "DRIVER_NOT_STARTED"
    """The driver did not start in time."""
    DRIVER_ORPHANED = "DRIVER_ORPHANED"
    """The driver stopped, because no loop ran its job any more."""
    DRIVER_REFUSED = "DRIVER_REFUSED"
    """The cluster refused the requests of a driver, for example because its account lacks permissions."""
    MASTER_UNRESPONSIVE = "MASTER_UNRESPONSIVE"
    """The driver lost the master."""
    NO_ROOM_FOR_STANDBY = "NO_ROOM_FOR_STANDBY"
    """No worker has room for one more driver of the job."""
    NOT_ENOUGH_RESOURCES = "NOT_ENOUGH_RESOURCES"
    """The slots of the lower bounds did not come in time."""
    NOT_SUBMITTED = "NOT_SUBMITTED"
    """The master received no submission."""
    SAVEPOINT_WITHOUT_STOP = "SAVEPOINT_WITHOUT_STOP"
    """The queries stopped at a batch boundary, and the driver did not end."""
    SCRIPT_WITHOUT_JOB = "SCRIPT_WITHOUT_JOB"
    """The script ended without a query."""
    SPARK_CONTEXT_STOPPED = "SPARK_CONTEXT_STOPPED"
    """The session ended under the queries. The driver does not know who stopped it."""
    SUBMISSION_REFUSED = "SUBMISSION_REFUSED"
    """The cluster refuses the driver, for example because of its declaration. The error of the task then names the cause at once."""
