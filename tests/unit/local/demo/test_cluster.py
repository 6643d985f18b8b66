"""The changes of the standalone cluster of the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.local.demo import cluster
from airflow_adaptive.local.demo.cluster import StandaloneDemo


class FakeCluster:
    """Records the requests to a cluster."""

    ui_url = "http://127.0.0.1:8080"
    airflow_connection = "{}"

    def __init__(self, directory: Path) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self) -> None:
        self.calls.append(("start",))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def add_worker(self, *, cores: int, memory_mb: int) -> str:
        self.calls.append(("add", cores, memory_mb))
        return f"worker of {cores}"

    def kill_worker(self, worker: str) -> None:
        self.calls.append(("kill", worker))

    def state(self) -> Any:
        return {"activedrivers": [{"id": "driver-1"}]}

    def kill_driver(self, driver: str) -> None:
        self.calls.append(("kill", driver))


def test_the_changes_add_and_kill_workers_and_kill_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "LocalCluster", FakeCluster)
    with StandaloneDemo(tmp_path) as demo:
        for change in demo.changes():
            change.apply()
        demo.add_two_slots()
    fake: Any = demo._cluster
    assert fake.calls == [
        ("start",),
        ("add", 2, 2048),
        ("add", 1, 1024),
        ("kill", "worker of 1"),
        ("kill", "driver-1"),
        ("add", 2, 2048),
        ("stop",),
    ]
    assert [change.slots for change in demo.changes()] == [1, 2, 1, 1]
