"""Airflow's metadata database, and the answers of its API server to the messages of the Task SDK."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from typing import Any

from airflow.sdk.exceptions import ErrorType

from airflow_adaptive._core.view import TaskKey
from tests.lab.fleet.airflow.tables import TaskInstance, TaskState, Trigger
from tests.support.airflow.airflow_versions import comms

NO_FIELDS: dict[str, Any] = dict.fromkeys(("host", "schema", "login", "password", "extra"))
"""Fields of a connection that may be missing."""


class MetadataDatabase:
    """Tables, and the answers to messages. No method takes time.

    Attributes:
        asset_states: name of the asset -> state store.
        variables: key -> value.
        connections: id -> fields of the connection (`ConnectionResult`).
        tasks: key -> task instance.
        active_runs: ids of the DAG runs that have not ended. Each task instance has a run of its own.
        triggers: number -> trigger.
        heartbeats: name of the triggerer -> time of its newest heartbeat.
    """

    def __init__(self) -> None:
        """Create an empty database."""
        self.asset_states: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self.variables: dict[str, str | None] = {}
        self.connections: dict[str, dict[str, Any]] = {}
        self.tasks: dict[TaskKey, TaskInstance] = {}
        self.active_runs: set[str] = set()
        self.triggers: dict[int, Trigger] = {}
        self.heartbeats: dict[str, float] = {}
        self._numbers = count(1)

    def answer(self, message: Any) -> Any:  # noqa: C901, PLR0912  one answer for each message
        """Execute a message of the Task SDK, and return the answer. Messages copy their values."""
        match message:
            case comms.GetAssetStateStoreByName(name=asset, key=key):
                if key not in self.asset_states[asset]:
                    return comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND)
                return comms.AssetStateStoreResult(value=self.asset_states[asset][key])
            case comms.SetAssetStateStoreByName(name=asset, key=key, value=value):
                self.asset_states[asset][key] = value
            case comms.DeleteAssetStateStoreByName(name=asset, key=key):
                self.asset_states[asset].pop(key, None)
            case comms.GetVariable(key=key):
                if key not in self.variables:
                    return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
                return comms.VariableResult(key=key, value=self.variables[key])
            case comms.PutVariable(key=key, value=value):
                self.variables[key] = value
            case comms.DeleteVariable(key=key):
                self.variables.pop(key, None)
                return comms.OKResponse(ok=True)
            case comms.GetConnection(conn_id=conn_id):
                if conn_id not in self.connections:
                    return comms.ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
                return comms.ConnectionResult.model_validate(
                    NO_FIELDS | self.connections[conn_id] | {"conn_id": conn_id}
                )
            case comms.SetXCom(key=key, value=value):
                self._task(message).xcoms[key] = value
            case comms.GetXCom(key=key):
                return comms.XComResult(key=key, value=self._task(message).xcoms.get(key))
            case comms.GetTaskStates():
                return comms.TaskStatesResult(task_states=self._states(message))
            case comms.GetDRCount(run_ids=runs):
                return comms.DRCount(count=len(self.active_runs.intersection(runs or ())))
            case _:
                raise LookupError(f"the database has no answer to {type(message).__name__}")
        return None

    def add_trigger(self, task: TaskInstance, arguments: Mapping[str, Any]) -> None:
        """Defer a task instance to a new trigger."""
        number = next(self._numbers)
        self.triggers[number] = Trigger(trigger_id=number, task=task.key, arguments=json.dumps(arguments))
        task.state, task.trigger_id = TaskState.DEFERRED, number

    def remove_unused_triggers(self) -> None:
        """Remove the triggers for which no task instance waits."""
        for number, trigger in list(self.triggers.items()):
            task = self.tasks[trigger.task]
            if task.state is not TaskState.DEFERRED or task.trigger_id != number:
                del self.triggers[number]

    def assign_triggers(self, triggerer: str, now: float, limit_s: float) -> dict[int, Trigger]:
        """Assign the triggers to a triggerer that no living triggerer runs, and return all triggers of the triggerer."""
        alive = {name for name, heartbeat_s in self.heartbeats.items() if heartbeat_s > now - limit_s}
        for trigger in self.triggers.values():
            if trigger.triggerer not in alive:
                trigger.triggerer = triggerer
        return {number: trigger for number, trigger in self.triggers.items() if trigger.triggerer == triggerer}

    def _task(self, message: Any) -> TaskInstance:
        map_index = -1 if message.map_index is None else message.map_index
        key = TaskKey(dag_id=message.dag_id, task_id=message.task_id, run_id=message.run_id, map_index=map_index)
        return self.tasks[key]

    def _states(self, message: comms.GetTaskStates) -> dict[str, dict[str, str | None]]:
        states: dict[str, dict[str, str | None]] = {}
        for key, task in self.tasks.items():
            is_wanted = key.task_id in (message.task_ids or ()) and key.run_id in (message.run_ids or ())
            if key.dag_id == message.dag_id and is_wanted:
                states.setdefault(key.run_id, {})[key.task_id] = task.state
        return states
