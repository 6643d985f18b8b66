"""Airflow's supervisor in memory, for code that speaks to it through the Task SDK."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner

from airflow_adaptive.runtime.requirements.control_requests import KEYS, decode_desired_state
from tests.support.airflow.airflow_versions import comms


class FakeComms:
    """What a task process or a triggerer has as `SUPERVISOR_COMMS`.

    Attributes:
        xcoms: by key; one task instance is enough here.
        map_indexes: that XComs were set for.
        asset_states: by key, of the only asset.
        assets: names of the assets that states were set for.
        variables: by key.
        reads: operations that read an asset's state or a Variable.
        task_states: by run, then by task, as the execution API tells them.
        active_runs: DAG runs that have not ended.
        pushes: keys of XComs in the order in which they were set.
        error: raised instead of an answer, None while Airflow answers.
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

    def send(self, message: Any) -> Any:  # noqa: C901, PLR0912  one answer for each message
        """Answer as the supervisor would."""
        if self.error is not None:
            raise self.error
        self.reads += isinstance(message, comms.GetAssetStateStoreByName | comms.GetVariable)
        match message:
            case comms.SetXCom():
                self.pushes.append(message.key)
                self.map_indexes.add(message.map_index)
                self.xcoms[message.key] = message.value
            case comms.GetXCom():
                return comms.XComResult(key=message.key, value=self.xcoms.get(message.key))
            case comms.SetAssetStateStoreByName():
                self.assets.add(message.name)
                self.asset_states[message.key] = message.value
            case comms.DeleteAssetStateStoreByName():
                self.asset_states.pop(message.key, None)
            case comms.GetAssetStateStoreByName() if message.key in self.asset_states:
                return comms.AssetStateStoreResult(value=self.asset_states[message.key])
            case comms.GetAssetStateStoreByName():
                return comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND)
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


def api_server_error() -> AirflowRuntimeError:
    """What the SDK raises when Airflow's API server does not answer."""
    return AirflowRuntimeError(comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR))
