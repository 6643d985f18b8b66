"""Access to Airflow's metadata database: `SUPERVISOR_COMMS` of all simulated processes, and the faults of the API server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms

from tests.lab.fleet.airflow.database import MetadataDatabase
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.faults import Faults
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.service import Service
from tests.lab.fleet.kernel.threads import SimulatedLock

LATENCY_S = (0.012, 0.03)

ATTEMPTS = 5
"""Attempts of an operation (`[workers] execution_api_retries`), with waits of one to eight seconds between them."""

WRITES = frozenset(
    {"SetAssetStateStoreByName", "DeleteAssetStateStoreByName", "DeleteVariable", "PutVariable", "SetXCom"}
)

Answer = TypeVar("Answer")
Record = Callable[[str], None]


class ApiServer:
    """Executes the operations of each process one after the other, as Airflow's supervisor does.

    Attributes:
        database: the database.
        faults: faults of the API server; the path of an operation is the name of its asset, Variable, connection or task.
    """

    def __init__(self, kernel: Kernel, entropy: Entropy, record: Record) -> None:
        """Create an empty database."""
        self.database = MetadataDatabase()
        self.faults = Faults(entropy.random("faults of Airflow's database"), _error, WRITES)
        self._kernel = kernel
        self._record = record
        self._service = Service(kernel, entropy, "Airflow's database", LATENCY_S, self.faults)
        self._locks: dict[str, SimulatedLock] = {}

    def send(self, message: Any) -> Any:
        """Execute a message of the Task SDK; blocks.

        Raises:
            AirflowRuntimeError: the API server does not answer.
        """
        return self.execute(type(message).__name__, _path(message), partial(self._answer, message))

    def execute(self, operation: str, path: str, act: Callable[[str], Answer]) -> Answer:
        """Execute an operation of the current process after its earlier operations; blocks. Raises as `send`."""
        process = self._kernel.process
        name = "" if process is None else process.name
        if name not in self._locks:
            self._locks[name] = SimulatedLock(self._kernel)
        with self._locks[name]:
            return self._attempt(name, operation, path, act)

    def _attempt(self, host: str, operation: str, path: str, act: Callable[[str], Answer]) -> Answer:
        """Execute an operation; repeat it after errors, as Airflow's client of the API does."""
        for attempt in range(ATTEMPTS - 1):
            try:
                return self._service.call(operation, path, act)
            except AirflowRuntimeError:
                self._kernel.sleep(self._service.random(host).uniform(1.0, 2.0**attempt))
        return self._service.call(operation, path, act)

    def _answer(self, message: Any, host: str) -> Any:
        if type(message).__name__ in WRITES:
            self._record(f"{_path(message)}: {message.key} set by {host}")
        return self.database.answer(message)


def _path(message: Any) -> str:
    """Return the name of what a message concerns."""
    names = (getattr(message, name, None) for name in ("name", "task_id", "conn_id", "dag_id", "key"))
    return next((name for name in names if name is not None), "")


def _error() -> AirflowRuntimeError:
    return AirflowRuntimeError(comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR))
