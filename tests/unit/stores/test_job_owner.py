"""The task to which a job belongs, and the folder in which it was deployed last, in the state store of its asset."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from threading import Condition, Thread
from typing import Any

import pytest

from airflow_adaptive.ports import OwnedJobError, UnavailableError
from airflow_adaptive.stores.job_owner import BASE, GATE, OWNER, claim_name, deployed_base, record_base, require_owner
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


def test_folder_is_recorded_and_read_back(airflow: FakeComms) -> None:
    assert deployed_base("departures") is None
    record_base("departures", "s3://bucket/jobs")
    assert (deployed_base("departures"), airflow.asset_states) == ("s3://bucket/jobs", {BASE: "s3://bucket/jobs"})


@pytest.mark.parametrize("stored", [7, ["s3://bucket"], {"base": "s3://bucket"}], ids=repr)
def test_value_that_is_no_text_counts_as_not_deployed(airflow: FakeComms, stored: object) -> None:
    airflow.asset_states = {BASE: stored}
    assert deployed_base("departures") is None


def test_first_task_owns_the_name_and_another_task_is_refused(airflow: FakeComms) -> None:
    for _ in range(2):
        claim_name("departures", "flights/stream", None)
    for refused in (claim_name, require_owner):
        with pytest.raises(OwnedJobError, match=r"belongs to task 'flights/stream'.*moved_from='flights/stream'"):
            refused("departures", "copies/stream", None)
    assert airflow.asset_states[OWNER] == "flights/stream"


def test_job_leaves_only_the_task_with_the_given_name(airflow: FakeComms) -> None:
    claim_name("departures", "flights/stream", None)
    with pytest.raises(OwnedJobError):
        claim_name("departures", "renamed/stream", "other/stream")
    for _ in range(2):
        claim_name("departures", "renamed/stream", "flights/stream")
    with pytest.raises(OwnedJobError, match="renamed/stream"):
        claim_name("departures", "flights/stream", None)


def test_name_of_a_job_of_a_fleet_contains_its_owner(airflow: FakeComms) -> None:
    claim_name("flights:stream:departures", "flights/stream", None)
    assert airflow.asset_states == {}


def test_store_that_does_not_answer_decides_nothing(airflow: FakeComms) -> None:
    airflow.error = api_server_error()
    with pytest.raises(Exception, match="API_SERVER_ERROR"):
        claim_name("departures", "flights/stream", None)


@pytest.mark.parametrize(
    "gate", [7, {}, {"task": "a/b"}, {"task": "a/b", "at": "soon"}, {"task": "a/b", "at": "2026-01-01"}]
)
def test_gate_that_cannot_be_read_is_open(airflow: FakeComms, gate: object) -> None:
    airflow.asset_states = {GATE: gate}
    claim_name("departures", "flights/stream", None)


def test_gate_of_a_task_that_died_closes_the_name_for_a_short_time(airflow: FakeComms) -> None:
    def died(task: str, minutes: float) -> dict[str, Any]:
        return {GATE: {"task": task, "at": (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()}}

    airflow.asset_states = died("copies/stream", 1)
    with pytest.raises(UnavailableError, match="claims job 'departures' at the same moment"):
        claim_name("departures", "flights/stream", None, no_pause)
    for states in (died("copies/stream", 3), died("flights/stream", 0)):
        airflow.asset_states = states
        claim_name("departures", "flights/stream", None)


def no_pause(_: float) -> None:
    """Wait for nothing: the other claims continue between two reads."""


class _Turns:
    """Lets two threads call the supervisor in a given order; a thread that has ended gives its turns to the other."""

    def __init__(self, airflow: FakeComms, order: tuple[int, ...]) -> None:
        self._send, self._order, self._turn, self._changed = airflow.send, list(order), 0, Condition()
        self._ended: set[int] = set()
        self.callers: dict[int, int] = {}

    def send(self, message: Any, caller: int) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: self._next() == caller, timeout=60)
            answer = self._send(message)
            self._turn += 1
            self._changed.notify_all()
            return answer

    def end(self, caller: int) -> None:
        with self._changed:
            self._ended.add(caller)
            self._changed.notify_all()

    def _next(self) -> int:
        planned = self._order[self._turn] if self._turn < len(self._order) else 0
        return 1 - planned if planned in self._ended else planned


OPERATIONS = 6
"""Calls of a claim that finds no owner."""


def _orders() -> Iterator[tuple[int, ...]]:
    for first in combinations(range(2 * OPERATIONS), OPERATIONS):
        yield tuple(0 if position in first else 1 for position in range(2 * OPERATIONS))


@pytest.mark.parametrize("tasks", [("dag0/stream", "dag1/stream"), ("dag/stream", "dag/stream")])
def test_of_two_claims_at_the_same_moment_only_those_of_one_task_succeed(
    monkeypatch: pytest.MonkeyPatch, tasks: tuple[str, str]
) -> None:
    """Two runs of one DAG start at the same moment as well, for example in a backfill. They never refuse each other."""
    from threading import current_thread  # noqa: PLC0415

    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415

    class Supervisor:
        def send(self, message: Any) -> Any:
            return turns.send(message, int(current_thread().name))

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)
    refused = 0
    for order in list(_orders()):
        airflow, claimed = FakeComms(), list[str]()
        turns = _Turns(airflow, order)

        def claim(caller: int, turns: _Turns = turns, claimed: list[str] = claimed) -> None:
            try:
                claim_name("departures", tasks[caller], None, no_pause)
                claimed.append(tasks[caller])
            except (OwnedJobError, UnavailableError):
                pass
            finally:
                turns.end(caller)

        threads = [Thread(target=claim, args=(caller,), name=str(caller)) for caller in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused += 2 - len(claimed)
        assert len(set(claimed)) <= 1, order
        assert not claimed or {airflow.asset_states[OWNER]} == set(claimed), order
    assert (refused > 0) == (tasks[0] != tasks[1])
