"""The documents of a job before Airflow 3.3, which has no state store of Assets: in Variables, and in the XComs of a task.

Theory: a request must survive a cleared task, a new DAG run and `airflow db clean`, which delete XComs, so each document that must last is a Variable
of its own. There are three or four of them for each job, and one more for each request. What a loop publishes is a copy of the journal and much larger.
It is in the XComs of the task instance that runs the job, which the Variable `ATTEMPT` names, and each loop publishes it again.

The Task SDK's own `Variable` is not used. It returns "no Variable" if Airflow does not answer, and reads from the secrets backend of the worker first.

A key has the same form in both, so that the REST API reads either with one statement. After an upgrade to Airflow 3.3, the task and the loop
of a job move its Variables into the state store (`_airflow.store.job_asset`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_adaptive._airflow.internals import (
    BaseXCom,
    DeleteVariable,
    ErrorResponse,
    GetVariable,
    PutVariable,
    supervisor,
)
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, unless_deleted
from airflow_adaptive._core.ports import SEPARATOR, StoreUnavailableError
from airflow_adaptive._core.view import TaskKey, is_published

PREFIX: Final = "airflow_adaptive"
"""Prefix of the keys of Variables and XComs with documents."""

DESCRIPTION: Final = "A document of a job of airflow-adaptive. Do not edit it."

MAX_KEY: Final = 250
"""Longest key of a Variable."""


def variable_key(asset: str, key: str) -> str:
    """Return the key of the Variable with a document of the job of an Asset.

    Args:
        asset: name of the Asset: `adaptive://<kind>/<id>/...`.
        key: key of the document, with the prefix of the job.

    Raises:
        ValueError: the ids of the job are too long for a Variable.
    """
    found = begin_of_keys(asset, key)
    if len(found) > MAX_KEY:
        raise ValueError(
            f"Variable {found!r} would have {len(found)} characters, and Airflow accepts {MAX_KEY}: use shorter ids of the DAG, the task and the job, "
            "or Airflow 3.3"
        )
    return found


def has_room(asset: str, key: str) -> bool:
    """Return whether a Variable can have the key for a document. Arguments as for `variable_key`."""
    return len(begin_of_keys(asset, key)) <= MAX_KEY


def begin_of_keys(asset: str, prefix: str = "") -> str:
    """Return the begin of the keys of all Variables with documents of an Asset, or of the job with this prefix; it may be longer than Airflow accepts."""
    return SEPARATOR.join((PREFIX, *asset.partition("://")[2].split("/"), prefix))


def xcom_key(key: str) -> str:
    """Return the key of the XCom with a published document. `key` contains the prefix of the job."""
    return f"{PREFIX}{SEPARATOR}{key}"


def encode(key: str, document: Any) -> str:
    """Return the text of the Variable of a key with a document, and the time of this write: Variables have no time."""
    return json.dumps({"key": key, "at": datetime.now(UTC).isoformat(), "document": document})


def decode(key: str, text: str | None) -> tuple[Any, datetime]:
    """Return the document of the Variable of a key, and the time of its write.

    Raises:
        StoreUnavailableError: the text was written for another key, or is none of this module.
    """
    try:
        found = json.loads(text or "")
        if found["key"] == key:
            return found["document"], datetime.fromisoformat(found["at"])
    except (LookupError, RecursionError, TypeError, ValueError):
        pass
    raise StoreUnavailableError(
        f"Variable {key!r} has another value than airflow-adaptive has written: exclude keys that begin with '{PREFIX}{SEPARATOR}' from the secrets "
        "backend of the API server (option [secrets] backend_kwargs, field variables_lookup_pattern in most backends), remove AIRFLOW_VAR_... from its "
        "environment, or delete the Variable if a user has edited it"
    )


class VariablesAndXComs:
    """The documents of one job. All calls block."""

    def __init__(self, asset: str, prefix: str, task: TaskKey | None = None) -> None:
        self._asset = asset
        self._prefix = prefix
        self._task = task

    def __repr__(self) -> str:
        return f"Variables {begin_of_keys(self._asset, self._prefix)}*"

    def get(self, key: str, default: Any = None) -> Any:
        """Return the document of a key, or the default if it does not exist."""
        if not is_published(key):
            name = self._variable(key)
            answer = _send(GetVariable(key=name))
            return default if isinstance(answer, ErrorResponse) else decode(name, answer.value)[0]
        task = self._task or TaskKey.of_attempt(str(self.get(ATTEMPT)))
        found = None if task is None else BaseXCom.get_one(key=xcom_key(f"{self._prefix}{key}"), **asdict(task))
        return default if found is None else found

    def set(self, key: str, document: Any) -> None:
        """Set the document of a key. Only the loop of the job, which knows its task, sets published documents."""
        if not is_published(key):
            name = self._variable(key)
            _send(PutVariable(key=name, value=encode(name, document), description=DESCRIPTION))
            return
        if self._task is None:
            raise TypeError(f"only the task of the job publishes {key!r}")
        with unless_deleted():
            BaseXCom.set(xcom_key(f"{self._prefix}{key}"), document, **asdict(self._task))

    def delete(self, key: str) -> None:
        """Delete the Variable of a key, if it exists."""
        _send(DeleteVariable(key=self._variable(key)))

    def take(self, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield the documents of some keys, and delete each Variable after the caller has stored its document."""
        for key in keys:
            if (document := self.get(key)) is not None:
                yield key, document
                self.delete(key)

    def _variable(self, key: str) -> str:
        return variable_key(self._asset, f"{self._prefix}{key}")


def _send(message: Any) -> Any:
    """Return the answer of the supervisor; an `ErrorResponse` means that the Variable does not exist.

    Raises:
        AirflowRuntimeError: Airflow does not answer.
    """
    try:
        answer = supervisor().send(message)
    except AirflowRuntimeError as error:
        answer = error.error
    if isinstance(answer, ErrorResponse) and answer.error is not ErrorType.VARIABLE_NOT_FOUND:
        raise AirflowRuntimeError(answer)
    return answer
