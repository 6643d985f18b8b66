"""Airflow: one metadata database with its API server, one scheduler, several triggerers, and users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from airflow.sdk.execution_time import task_runner
from airflow.sdk.io import store as object_stores
from airflow.sdk.io.store import ObjectStore

from tests.lab.fleet.airflow.api_server import ApiServer, Record
from tests.lab.fleet.airflow.scheduler import Scheduler
from tests.lab.fleet.airflow.triggerer import SimulatedTriggerer
from tests.lab.fleet.airflow.users import Users
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.filesystem import SimulatedFileSystem
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage


class SimulatedAirflow:
    """An Airflow deployment.

    Attributes:
        api: the API server with the database and its faults.
        scheduler: the scheduler.
        users: what users and programs do.
        triggerers: all triggerers that were started, in order.
    """

    def __init__(self, kernel: Kernel, entropy: Entropy, record: Record) -> None:
        """Create a deployment without tasks and triggerers."""
        self.api = ApiServer(kernel, entropy, record)
        self.scheduler = Scheduler(kernel, entropy, record, self.api)
        self.users = Users(kernel, record, self.api, self.scheduler)
        self.triggerers: list[SimulatedTriggerer] = []
        self._record = record

    def start_triggerer(self, process: SimulatedProcess) -> SimulatedTriggerer:
        """Start a triggerer in a process."""
        triggerer = SimulatedTriggerer(process, self._record, self.api, self.scheduler)
        self.triggerers.append(triggerer)
        return triggerer

    @contextmanager
    def installed(self, *storages: SimulatedStorage) -> Iterator[None]:
        """Replace Airflow in this interpreter.

        Args:
            storages: storages, one for each protocol.
        """
        stores = {
            storage.protocol: ObjectStore(storage.protocol, None, fs=SimulatedFileSystem(storage))
            for storage in storages
        }
        with (
            # The only way from the Task SDK to the database.
            patch.object(task_runner, "SUPERVISOR_COMMS", self.api, create=True),
            # The filesystems that `ObjectStoragePath` finds.
            patch.dict(object_stores._STORE_CACHE, stores, clear=True),
        ):
            yield
