from __future__ import annotations

import threading

from airflow_adaptive.job.control.watchdog import EXIT_FENCED, LeaseWatchdog

TIMEOUT_S = 10.0
GRACE_S = 0.04


class Process:
    """What would end."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.ended = threading.Event()
        self.looks = threading.Semaphore(0)
        self.overdue_s = -60.0

    def overdue(self) -> float:
        self.looks.release()
        return self.overdue_s

    def end(self, code: int, _: str) -> None:
        self.code = code
        self.ended.set()

    def wait_for_looks(self) -> None:
        for _ in range(3):
            assert self.looks.acquire(timeout=TIMEOUT_S)


def test_ends_the_process_when_the_lease_has_expired_and_a_query_may_run():
    process = Process()
    watchdog = LeaseWatchdog(process.overdue, grace_s=GRACE_S, end=process.end)
    watchdog.start()
    watchdog.guard(True)
    process.wait_for_looks()
    assert not process.ended.is_set()
    process.overdue_s = GRACE_S + 0.01
    assert process.ended.wait(TIMEOUT_S)
    assert process.code == EXIT_FENCED
    watchdog.join(TIMEOUT_S)


def test_does_not_end_a_driver_without_a_query():
    process = Process()
    process.overdue_s = 100.0
    watchdog = LeaseWatchdog(process.overdue, grace_s=GRACE_S, end=process.end)
    watchdog.guard(True)
    watchdog.guard(False)
    watchdog.start()
    process.wait_for_looks()
    watchdog.close()
    watchdog.join(TIMEOUT_S)
    assert not process.ended.is_set()
