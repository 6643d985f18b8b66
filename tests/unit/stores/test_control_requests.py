"""Control requests in the asset state store: each source has a document of its own, so no request overwrites another one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.execution_time.comms import SetAssetStateStoreByName

from airflow_adaptive.ports import DesiredState, Requester
from airflow_adaptive.runtime.requirements.control_requests import (
    CALENDAR,
    DESIRED_STATE,
    REQUIREMENTS,
    ControlRequest,
    validate,
)
from airflow_adaptive.stores.control_requests import (
    ControlRequestReader,
    request_desired_state,
    requested_desired_state,
    store_request,
    withdraw_desired_state,
)
from airflow_adaptive.stores.job_asset import job_asset
from airflow_adaptive.testing.scenario import START
from tests.support.airflow.fake_supervisor import FakeComms

ALICE = Requester(requested_by="alice", via="REST", expires_at=START + timedelta(hours=1))
RUSH_HOUR = Requester(requested_by="rush_hour/set/r", via="task")


def bounds(lower: int, upper: int) -> dict[str, Any]:
    return {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}


def by_alice() -> None:
    store_request("departures", ControlRequest(key=REQUIREMENTS, value=bounds(2, 3), requester=ALICE))


def by_calendar() -> None:
    store_request("departures", ControlRequest(key=CALENDAR, value=bounds(1, 4), requester=RUSH_HOUR))


class InterruptedComms(FakeComms):
    """A supervisor that runs another writer between the first answer to a writer and its next message."""

    other: Callable[[], None] | None = None

    def send(self, message: Any) -> Any:
        answer = super().send(message)
        other, self.other = self.other, None
        if other is not None:
            other()
        return answer


@pytest.mark.parametrize(("first", "second"), [(by_calendar, by_alice), (by_alice, by_calendar)])
def test_requests_of_a_user_and_a_calendar_at_the_same_time_are_both_kept(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], None], second: Callable[[], None]
) -> None:
    """One writer sends its first message, the other one stores its whole request, and then the first one continues."""
    airflow = InterruptedComms.install(monkeypatch)
    assert isinstance(airflow, InterruptedComms)
    airflow.other = second
    first()
    reader = ControlRequestReader(job_asset("departures").store)
    reader.accept(reader.read()[0])
    assert (reader.requests.requirements, reader.requests.requester) == ({"job": (2, 3)}, ALICE)
    assert (reader.requests.calendar, reader.requests.calendar_requester) == ({"job": (1, 4)}, RUSH_HOUR)


def test_reader_does_not_restore_a_withdrawn_desired_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop knows the request to suspend its job, the task of the job withdraws the request, and the loop reads once more."""
    FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    request_desired_state("departures", DesiredState.SUSPENDED)
    reader.accept(reader.read()[0])
    withdraw_desired_state("departures")
    documents, is_emptied = reader.read()
    reader.accept(documents)
    assert not is_emptied
    assert reader.requests.desired_state is DesiredState.RUNNING
    assert requested_desired_state("departures") is None
    request_desired_state("departures", DesiredState.SUSPENDED)
    assert requested_desired_state("departures") is DesiredState.SUSPENDED


def test_withdrawn_desired_state_names_its_requester(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user suspends a job, the job ends and its task withdraws the request, twice because the task is tried again."""
    airflow = FakeComms.install(monkeypatch)
    store_request("departures", ControlRequest(key=DESIRED_STATE, value="suspended", requester=ALICE))
    requested = dict(airflow.asset_states[DESIRED_STATE])
    withdraw_desired_state("departures")
    withdraw_desired_state("departures")
    requester = {name: requested[name] for name in ("by", "via", "at")}
    assert requester["by"] == "alice"
    assert airflow.asset_states[DESIRED_STATE] == {"value": None, **requester}
    reader = ControlRequestReader(job_asset("departures").store)
    documents, _ = reader.read()
    validate(DESIRED_STATE, documents[DESIRED_STATE])
    reader.accept(documents)
    assert reader.requests.desired_state is DesiredState.RUNNING


@pytest.mark.parametrize(
    ("request_", "is_resumed"),
    [
        (ControlRequest(key=DESIRED_STATE, value="running", requester=ALICE), True),
        (ControlRequest(key=DESIRED_STATE, value="running", requester=Requester(via="REST")), True),
        (ControlRequest(key=DESIRED_STATE, value="running"), False),
        (ControlRequest(key=DESIRED_STATE, value="suspended", requester=ALICE), False),
    ],
)
def test_only_a_user_resumes_a_job_before_its_end_is_reported(
    monkeypatch: pytest.MonkeyPatch, request_: ControlRequest, is_resumed: bool
) -> None:
    FakeComms.install(monkeypatch)
    store_request("departures", request_)
    assert withdraw_desired_state("departures") is is_resumed
    assert not withdraw_desired_state("departures")


@pytest.mark.parametrize("document", [7, "value", ["value"], {}, {"by": "alice"}, {"value": "stop"}])
def test_document_without_a_desired_state_and_without_a_withdrawal_is_invalid(document: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid DesiredState"):
        validate(DESIRED_STATE, document)


@pytest.mark.parametrize("document", [None, 7, {"more": 1}])
def test_unknown_document_is_withdrawn_without_a_requester(monkeypatch: pytest.MonkeyPatch, document: Any) -> None:
    airflow = FakeComms.install(monkeypatch)
    airflow.asset_states = {} if document is None else {DESIRED_STATE: document}
    withdraw_desired_state("departures")
    assert airflow.asset_states == {DESIRED_STATE: {"value": None}}


def test_requests_are_restored_after_a_withdrawal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A desired state is withdrawn, a loop reads the requests, and then Airflow empties the store."""
    airflow = FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    by_alice()
    withdraw_desired_state("departures")
    reader.accept(reader.read()[0])
    before = dict(airflow.asset_states)
    airflow.asset_states.clear()
    assert reader.read() == (before | {CALENDAR: None}, True)
    assert airflow.asset_states == before


class WritingComms(FakeComms):
    """A supervisor that runs another writer after the first write of a loop."""

    other: Callable[[], None] | None = None

    def send(self, message: Any) -> Any:
        answer = super().send(message)
        if isinstance(message, SetAssetStateStoreByName) and self.other is not None:
            other, self.other = self.other, None
            other()
        return answer


def test_request_that_is_accepted_while_others_are_restored_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow empties the store, a loop restores its first request, and a user and a calendar make new requests before the others."""
    airflow = WritingComms.install(monkeypatch)
    assert isinstance(airflow, WritingComms)
    reader = ControlRequestReader(job_asset("departures").store)
    request_desired_state("departures", DesiredState.RUNNING)
    by_calendar()
    store_request("departures", ControlRequest(key=REQUIREMENTS, value=bounds(1, 1)))
    reader.accept(reader.read()[0])
    airflow.asset_states.clear()
    airflow.other = by_alice
    documents, is_emptied = reader.read((DESIRED_STATE, REQUIREMENTS))
    reader.accept(documents)
    assert is_emptied
    assert airflow.asset_states[REQUIREMENTS]["by"] == "alice"
    assert reader.requests.requirements == {"job": (2, 3)}, "the loop uses the newer request at once"
    assert reader.requests.calendar == {"job": (1, 4)}


def test_store_is_emptied_although_it_contains_a_newer_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow empties the store, and a user suspends the job before its loop reads again: the override of the user is restored."""
    airflow = FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    request_desired_state("departures", DesiredState.RUNNING)
    by_alice()
    reader.accept(reader.read()[0])
    airflow.asset_states.clear()
    request_desired_state("departures", DesiredState.SUSPENDED)
    documents, is_emptied = reader.read()
    reader.accept(documents)
    assert is_emptied
    assert airflow.requests == {"desired_state": "suspended", "requirements": bounds(2, 3)}
    assert reader.requests.desired_state is DesiredState.SUSPENDED
