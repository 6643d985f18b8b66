"""What stands in for Airflow's supervisor, through which a triggerer reaches all of Airflow's stores.

Only the triggerer's process imports it: importing Airflow takes time and memory.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import comms

STORE_LATENCY_S = 0.015
"""Of one question to Airflow's API server."""


class SlowSupervisor:
    """Airflow's supervisor with its stores in memory: one question at a time.

    Attributes:
        requests: number of messages of each kind.
    """

    def __init__(self) -> None:
        """The stores are empty."""
        self.requests: Counter[str] = Counter()
        self._states: dict[tuple[str, str], Any] = {}
        self._variables: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._answers = threading.Event()
        self._answers.set()

    def send(self, message: Any) -> Any:
        """Answer as the supervisor would."""
        with self._one_at_a_time:
            self._answers.wait()
            time.sleep(STORE_LATENCY_S)
            self.requests[type(message).__name__] += 1
            return self._answer(message)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Answer no request while the context manager is open."""
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    def _answer(self, message: Any) -> Any:
        match message:
            case comms.SetAssetStateStoreByName():
                self._states[message.name, message.key] = message.value
            case comms.GetAssetStateStoreByName() if (message.name, message.key) in self._states:
                return comms.AssetStateStoreResult(value=self._states[message.name, message.key])
            case comms.GetAssetStateStoreByName():
                return comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND)
            case comms.PutVariable():
                self._variables[message.key] = message.value or ""
            case comms.GetVariable() if message.key in self._variables:
                return comms.VariableResult(key=message.key, value=self._variables[message.key])
            case comms.GetVariable():
                return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
            case _:
                pass
        return None
