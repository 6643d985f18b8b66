"""Airflow's supervisor in memory, for code that speaks to it through the Task SDK."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._airflow.store.variables_and_xcoms import PREFIX, decode, encode
from airflow_adaptive._core.requirements.control_requests import KEYS, decode_desired_state
from tests.support.airflow.airflow_versions import comms


@dataclass(frozen=True)
class Document:
    """The document of a job that a message reads, sets or deletes.

    Attributes:
        key: of the document, with the prefix of the job.
        asset: name of the asset of the job; "" for an XCom, which belongs to a task.
        is_set: whether the message sets the document.
    """

    key: str
    asset: str
    is_set: bool

    @classmethod
    def of(cls, message: Any) -> Document | None:
        """Return the document of a message, None for another message. Before Airflow 3.3, documents are Variables and XComs."""
        key = getattr(message, "key", "")
        match message:
            case comms.SetAssetStateStoreByName():
                return cls(key, message.name, is_set=True)
            case comms.GetAssetStateStoreByName() | comms.DeleteAssetStateStoreByName():
                return cls(key, message.name, is_set=False)
            case _ if has("AssetStateStoreAccessor") or not key.startswith(f"{PREFIX}:"):
                return None
            case comms.GetXCom() | comms.SetXCom():
                return cls(key.removeprefix(f"{PREFIX}:"), "", isinstance(message, comms.SetXCom))
            case _:
                _, kind, rest = key.split(":", 2)
                *ids, key = rest.split(":", {"job": 1, "fleet": 2}[kind])
                return cls(key, f"adaptive://{kind}/{'/'.join(ids)}", isinstance(message, comms.PutVariable))


class FakeComms:
    """What a task process or a triggerer has as `SUPERVISOR_COMMS`.

    Attributes:
        xcoms: by key, without documents; one task instance is enough here.
        map_indexes: that XComs were set for.
        asset_states: documents by key, of the only asset. Before Airflow 3.3, the Variables and XComs with documents, decoded.
        assets: names of the assets that documents were set for.
        variables: by key, without documents.
        reads: operations that read a document or a Variable.
        task_states: by run, then by task, as the execution API tells them.
        active_runs: DAG runs that have not ended.
        pushes: keys of XComs in the order in which they were set.
        error: raised instead of an answer, None while Airflow answers.
        is_run_deleted: whether the DAG run was deleted, so that nothing can be set as XCom.
    """

    def __init__(self) -> None:
        self.xcoms: dict[str, Any] = {}
        self.map_indexes: set[int | None] = set()
        self.asset_states: dict[str, Any] = {}
        self.assets: set[str] = set()
        self.variables: dict[str, str | None] = {}
        self.reads = 0
        self.task_states: dict[str, dict[str, str | None]] = {}
        self.active_runs: set[str] = set()
        self.pushes: list[str] = []
        self.error: Exception | None = None
        self.is_run_deleted = False

    @property
    def requests(self) -> dict[str, Any]:
        """The values of the control requests, by key."""
        found = {key: self.asset_states[key] for key in KEYS if key in self.asset_states}
        return {key: document["value"] for key, document in found.items() if "value" in document}

    @property
    def desired_state(self) -> str | None:
        """The desired state that the control requests determine."""
        return decode_desired_state(self.asset_states)

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> FakeComms:
        """Be the supervisor for the time of a test."""
        fake = cls()
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
        return fake

    def send(self, message: Any) -> Any:  # noqa: C901  one answer for each message
        """Answer as the supervisor would."""
        if self.error is not None:
            raise self.error
        if self.is_run_deleted and isinstance(message, comms.SetXCom):
            raise api_server_error(HTTPStatus.NOT_FOUND)
        document = Document.of(message)
        self.reads += isinstance(message, comms.GetAssetStateStoreByName | comms.GetVariable)
        if document is not None:
            return self._answer(message, document)
        match message:
            case comms.SetXCom():
                self.pushes.append(message.key)
                self.map_indexes.add(message.map_index)
                self.xcoms[message.key] = message.value
            case comms.GetXCom():
                return comms.XComResult(key=message.key, value=self.xcoms.get(message.key))
            case comms.GetVariable() if message.key in self.variables:
                return comms.VariableResult(key=message.key, value=self.variables[message.key])
            case comms.GetVariable():
                return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
            case comms.PutVariable():
                self.variables[message.key] = message.value
            case comms.DeleteVariable():
                self.variables.pop(message.key, None)
                return comms.OKResponse(ok=True)
            case comms.GetTaskStates():
                return comms.TaskStatesResult(task_states=self.task_states)
            case comms.GetDRCount():
                return comms.DRCount(count=len(self.active_runs & {*(message.run_ids or ())}))
            case _:
                raise LookupError(f"the fake has no answer to {type(message).__name__}")
        return None

    def _answer(self, message: Any, document: Document) -> Any:
        """Answer a message about a document."""
        if document.is_set:
            self.assets |= {document.asset} - {""}
            is_variable = isinstance(message, comms.PutVariable)
            self.asset_states[document.key] = decode(message.key, message.value)[0] if is_variable else message.value
            return None
        found, is_known = self.asset_states.get(document.key), document.key in self.asset_states
        match message:
            case comms.GetAssetStateStoreByName():
                missing = comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND)
                return comms.AssetStateStoreResult(value=found) if is_known else missing
            case comms.GetVariable():
                missing = comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
                return comms.VariableResult(key=message.key, value=encode(message.key, found)) if is_known else missing
            case comms.GetXCom():
                return comms.XComResult(key=message.key, value=found)
            case _:
                self.asset_states.pop(document.key, None)
                return comms.OKResponse(ok=True)


def api_server_error(status: HTTPStatus = HTTPStatus.BAD_GATEWAY) -> AirflowRuntimeError:
    """What the SDK raises when Airflow's API server does not answer, or refuses a request."""
    return AirflowRuntimeError(
        comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status.value})
    )
