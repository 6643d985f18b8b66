"""Why the API server refuses the requests of a driver, from the driver's log. Pure.

The API server evaluates the permissions of the driver's account, and the admission of executors, only when the driver sends its requests. Spark
logs the answers, and repeats requests for executors without an end.
"""

from __future__ import annotations

import re
from typing import Final

EXCEPTION: Final = "KubernetesClientException: "
"""Of Spark's client, in the line of a refusal."""

REFUSED: Final = re.compile(
    r"\b[\w.]{1,253} (?:\"[^\"]{1,253}\" )?is (?:forbidden|invalid): (?!exceeded quota)|admission webhook \"[^\"]{1,253}\" denied the request"
)
"""An answer that stays the same. A quota may have room later, and a webhook that fails may answer later."""

TRACEBACK: Final = "Traceback (most recent call last)"

WITHOUT_EXECUTORS: Final = "stopped while waiting for backend"
"""In the exception of a session that Spark stopped because no executor came."""

WITHOUT_PERMISSION: Final = re.compile(r"User \"[^\"]*\" cannot \w+ resource")
POD_SECURITY: Final = "violates PodSecurity"

DETAILS: Final = "Received status: "
"""What follows the message of the API server."""

MAX_LINE: Final = 8192

MAX_CHARACTERS: Final = 700


def refusal_of_executors(log: str) -> str:
    """Return why the API server refuses executors, and the remedy; "" if the log contains no refusal."""
    text = _last(log)
    return text and f"the API server refuses the executors: {_cut(text)}: {_remedy(text)}"


def refusal_at_end(log: str) -> str:
    """Return why the API server refused a request without which the driver ended, and the remedy; "" if something else ended the driver."""
    if WITHOUT_EXECUTORS in log:
        return refusal_of_executors(log)
    text = _last(log.rpartition(TRACEBACK)[2])
    return text and f"the API server refused the driver: {_cut(text)}: {_remedy(text)}"


def _last(log: str) -> str:
    """Return the text of the last refusal, "" without one."""
    for line in reversed(log.splitlines()):
        text = line[:MAX_LINE].partition(EXCEPTION)[2].partition(DETAILS)[0]
        found = REFUSED.search(text)
        if found is not None:
            return text[found.start() :].strip(" .")
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ..."


def _remedy(text: str) -> str:
    if WITHOUT_PERMISSION.search(text):
        return (
            "bind the Role of docs/kubernetes/driver-account.yaml to the account of the driver (`service_account_name`)"
        )
    if POD_SECURITY in text:
        return "use docs/kubernetes/restricted-pod.yaml as `executor_pod_template`"
    return "correct `executor_pod_template`, and the properties of executors in `conf`"
