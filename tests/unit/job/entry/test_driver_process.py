"""A driver ends with its JVM, whatever its threads do."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive.job.entry import driver
from airflow_adaptive.job.entry.driver import DriverProcess


class Processes:
    """The processes of a driver; `ended` contains what was ended, in order."""

    def __init__(self, jvm: int, child: Any = None) -> None:
        handle = SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: jvm))
        spark: Any = SimpleNamespace(
            _jvm=SimpleNamespace(**{"java.lang.ProcessHandle": handle}),
            sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=child)),
        )
        self.ended: list[tuple[object, ...]] = []
        self.process = DriverProcess(
            spark, end=lambda code: self.ended.append(("Python", code)), kill=lambda *given: self.ended.append(given)
        )


@pytest.mark.parametrize(
    ("jvm", "child"),
    [(os.getppid(), None), (4711, SimpleNamespace(pid=4711))],
    ids=["spark-submit has started Python", "Python has started the JVM"],
)
def test_jvm_ends_before_the_process(jvm: int, child: Any, caplog: pytest.LogCaptureFixture):
    processes = Processes(jvm, child)
    processes.process.exit(3, "this driver is fenced")
    assert processes.ended == [(jvm, signal.SIGKILL), ("Python", 3)]
    assert "this driver is fenced: exiting" in caplog.text


def test_another_process_with_the_number_of_a_dead_jvm_is_left_alone():
    processes = Processes(os.getppid() + 1)
    processes.process.exit(3, "this driver is fenced")
    assert processes.ended == [("Python", 3)]


def test_processes_end_although_a_frozen_jvm_does_not_read_the_output(monkeypatch: pytest.MonkeyPatch):
    """The JVM is frozen and the pipe of the output is full, so each write of the driver blocks."""
    thawed = threading.Event()
    monkeypatch.setattr(driver, "OUTPUT_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(flush=thawed.wait))
    processes = Processes(os.getppid())
    processes.process.exit(3, "the lease has expired")
    thawed.set()
    assert processes.ended == [(os.getppid(), signal.SIGKILL), ("Python", 3)]
