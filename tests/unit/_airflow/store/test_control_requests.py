"""Control requests in the state store, and the change markers that announce them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.store.control_requests import (
    MAX_MARKERS,
    VARIABLE,
    ChangeMarkers,
    ControlRequestReader,
    begin_job,
    end_job,
    notify,
    read_desired_state,
    read_markers,
    request_desired_state,
    store_request,
    with_new_marker,
)
from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._core.requirements.control_requests import (
    CALENDAR,
    DESIRED_STATE,
    HANDLED,
    KEYS,
    REQUIREMENTS,
    RESTORED,
    ControlRequest,
    DesiredState,
    Requester,
    newest_requests,
    reported_end,
    validate,
)
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.scenario import START
from tests.support.airflow.fake_supervisor import Document, FakeComms

ALICE = Requester(requested_by="alice", via="REST", expires_at=START + timedelta(hours=1))
RUSH_HOUR = Requester(requested_by="rush_hour/set/r", via="task")


END = {"outcome": "SUSPENDED", "state": "Finished"}


def bounds(lower: int, upper: int) -> dict[str, Any]:
    return {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}


def by_alice() -> None:
    store_request("departures", ControlRequest(key=REQUIREMENTS, value=bounds(2, 3), requester=ALICE))


def by_calendar() -> None:
    store_request("departures", ControlRequest(key=CALENDAR, value=bounds(1, 4), requester=RUSH_HOUR))


class InterruptedComms(FakeComms):
    """A supervisor that runs another writer between the answer to a message of a writer, the first one by default, and its next message."""

    other: Callable[[], None] | None = None
    after = 1

    def send(self, message: Any) -> Any:
        answer = super().send(message)
        if self.other is not None:
            self.after -= 1
            if self.after == 0:
                self.other()
        return answer


class WritingComms(FakeComms):
    """A supervisor that runs another writer after the first write of a loop."""

    other: Callable[[], None] | None = None

    def send(self, message: Any) -> Any:
        answer = super().send(message)
        if self.other is not None and (document := Document.of(message)) is not None and document.is_set:
            other, self.other = self.other, None
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
    assert (reader.requests.requirements, reader.requests.requester) == ({"job": ParallelismRange(2, 3)}, ALICE)
    assert (reader.requests.calendar, reader.requests.calendar_requester) == (
        {"job": ParallelismRange(1, 4)},
        RUSH_HOUR,
    )


def by_user(value: str) -> None:
    store_request("departures", ControlRequest(key=DESIRED_STATE, value=value, requester=ALICE))


def test_handled_request_has_no_effect_and_the_next_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop knows the request to suspend its job, the task of the job reports the end, and a user suspends the next run."""
    airflow = FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    by_user("suspended")
    reader.accept(reader.read()[0])
    assert reader.requests.desired_state is DesiredState.SUSPENDED
    end_job("departures", END)
    documents, is_emptied = reader.read()
    reader.accept(documents)
    assert not is_emptied
    assert (reader.requests.desired_state, airflow.desired_state) == (DesiredState.RUNNING, None)
    begin_job("departures", read_desired_state("departures"), datetime.now(UTC))
    assert airflow.desired_state == DesiredState.RUNNING.value
    by_user("suspended")
    assert airflow.desired_state == "suspended"


@pytest.mark.parametrize("is_later_ended", [False, True], ids=["", "and a later attempt ended"])
@pytest.mark.parametrize("value", ["suspended", "canceled"])
def test_request_handled_before_a_change_of_the_fernet_key_has_no_later_effect(
    monkeypatch: pytest.MonkeyPatch, value: str, is_later_ended: bool
) -> None:
    """Airflow cannot decrypt the Variables while the task begins the job. Then a user appends the earlier key."""
    airflow = FakeComms.install(monkeypatch)
    by_user(value)
    airflow.asset_states[DESIRED_STATE]["at"] = "2026-01-31T17:00:00+00:00"
    end_job("departures", END)
    encrypted, airflow.asset_states = airflow.asset_states, {}
    begin_job("departures", read_desired_state("departures"), datetime.now(UTC))
    if is_later_ended:
        end_job("departures", END, retried="flights/stream/r")
    airflow.asset_states = encrypted | airflow.asset_states
    if is_later_ended:
        begin_job("departures", read_desired_state("departures"), datetime.now(UTC), is_retry=True)
    reader = ControlRequestReader(job_asset("departures").store)
    reader.accept(reader.read()[0])
    assert (reader.requests.desired_state, airflow.desired_state) == (DesiredState.RUNNING, "running")
    by_user(value)
    assert airflow.desired_state == value


def test_handled_request_still_names_its_requester(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = FakeComms.install(monkeypatch)
    by_user("suspended")
    end_job("departures", END)
    end_job("departures", END)
    assert newest_requests(airflow.asset_states)[DESIRED_STATE]["by"] == "alice"


@pytest.mark.parametrize("value", ["canceled", "suspended", "running"])
@pytest.mark.parametrize("before", [None, "running", "suspended", "canceled"])
def test_request_that_is_accepted_while_the_next_try_starts_stays_open(
    monkeypatch: pytest.MonkeyPatch, before: str | None, value: str
) -> None:
    """The task reads the requests, a user makes another one, and then the task records that it starts the job."""
    airflow = FakeComms.install(monkeypatch)
    if before is not None:
        by_user(before)
    read_at, documents = datetime.now(UTC), read_desired_state("departures")
    by_user(value)
    begin_job("departures", documents, read_at)
    assert airflow.desired_state == value


@pytest.mark.parametrize("writes", [0, 1])
def test_resumption_while_the_task_reports_the_end_is_not_lost(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """A user resumes the job after the task has read the requests, before or after it records the end."""
    airflow = (InterruptedComms if writes == 0 else WritingComms).install(monkeypatch)
    by_user("suspended")
    airflow.other = lambda: by_user("running")  # type: ignore[attr-defined]
    assert end_job("departures", END)


@pytest.mark.parametrize(
    ("users", "tasks", "desired_state"),
    [
        (None, "suspended", "suspended"),
        ("suspended", "running", "running"),
        ("canceled", "suspended", "canceled"),
        ("running", "canceled", "canceled"),
    ],
)
def test_task_of_another_dag_overwrites_no_request_of_a_user(
    monkeypatch: pytest.MonkeyPatch, users: str | None, tasks: str, desired_state: str
) -> None:
    airflow = FakeComms.install(monkeypatch)
    if users is not None:
        by_user(users)
    request_desired_state("departures", DesiredState(tasks), RUSH_HOUR)
    assert airflow.desired_state == desired_state


def test_task_of_another_dag_does_not_undo_the_cancellation_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = FakeComms.install(monkeypatch)
    request_desired_state("departures", DesiredState.CANCELED, RUSH_HOUR)
    request_desired_state("departures", DesiredState.SUSPENDED, RUSH_HOUR)
    assert airflow.desired_state == DesiredState.CANCELED.value
    end_job("departures", END)
    request_desired_state("departures", DesiredState.SUSPENDED, RUSH_HOUR)
    assert airflow.desired_state == "suspended"


@pytest.mark.parametrize("after", range(1, 7))
def test_cancellation_by_a_task_outlasts_a_request_of_another_task_at_the_same_moment(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    airflow = InterruptedComms.install(monkeypatch)
    assert isinstance(airflow, InterruptedComms)
    airflow.other, airflow.after = lambda: request_desired_state("departures", DesiredState.CANCELED, RUSH_HOUR), after
    request_desired_state("departures", DesiredState.SUSPENDED, RUSH_HOUR)
    if airflow.after > 0:
        airflow.other()
    assert airflow.desired_state == DesiredState.CANCELED.value


def test_newest_request_of_a_user_and_a_task_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = FakeComms.install(monkeypatch)
    request_desired_state("departures", DesiredState.SUSPENDED, RUSH_HOUR)
    by_user("running")
    assert airflow.desired_state == DesiredState.RUNNING.value
    assert end_job("departures", END)


@pytest.mark.parametrize(("value", "is_resumed"), [("running", True), ("suspended", False), ("canceled", False)])
def test_open_request_to_run_resumes_a_job_once(monkeypatch: pytest.MonkeyPatch, value: str, is_resumed: bool) -> None:
    FakeComms.install(monkeypatch)
    begin_job("departures", {}, datetime.now(UTC))
    by_user(value)
    assert end_job("departures", END) is is_resumed
    assert not end_job("departures", END)


@pytest.mark.parametrize("document", [7, "value", ["value"], {}, {"by": "alice"}, {"value": "stop"}, {"value": None}])
def test_document_without_a_desired_state_is_invalid(document: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid DesiredState"):
        validate(DESIRED_STATE, document)


@pytest.mark.parametrize("document", [7, {"more": 1}, {"value": "stop"}, {"value": ["running"]}])
def test_invalid_documents_do_not_keep_the_task_from_reporting_the_end(
    monkeypatch: pytest.MonkeyPatch, document: Any
) -> None:
    airflow = FakeComms.install(monkeypatch)
    airflow.asset_states = {DESIRED_STATE: document, HANDLED: document, RESTORED: document}
    assert not end_job("departures", END)
    handled = airflow.asset_states[HANDLED]
    assert {**handled, "missing": {}} == {"requests": [], "is_running": False, "end": END, "missing": {}}
    assert reported_end(airflow.asset_states) == END
    begin_job("departures", {}, datetime.now(UTC))
    assert reported_end(airflow.asset_states) is None


def test_requests_are_restored_under_a_key_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop reads the requests, Airflow empties the store, and a loop that starts later finds the requests."""
    airflow = FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    by_alice()
    end_job("departures", END)
    reader.accept(reader.read()[0])
    before = dict(airflow.asset_states)
    airflow.asset_states.clear()
    documents, is_emptied = reader.read()
    assert is_emptied
    assert {key: documents[key] for key in before} == before
    assert airflow.asset_states == {RESTORED: before}
    for fast_or_full in ((DESIRED_STATE, REQUIREMENTS), KEYS):
        reader.accept(reader.read(fast_or_full)[0])
        assert not reader.read(fast_or_full)[1]
    next_reader = ControlRequestReader(job_asset("departures").store)
    next_reader.accept(next_reader.read()[0])
    assert next_reader.requests.requirements == reader.requests.requirements == {"job": ParallelismRange(2, 3)}
    airflow.asset_states.clear()
    assert reader.read((REQUIREMENTS,))[1], "the store was emptied again"


def test_request_that_is_accepted_while_others_are_restored_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow empties the store, and a user makes a new request while a loop restores the others."""
    airflow = WritingComms.install(monkeypatch)
    assert isinstance(airflow, WritingComms)
    reader = ControlRequestReader(job_asset("departures").store)
    by_calendar()
    store_request("departures", ControlRequest(key=REQUIREMENTS, value=bounds(1, 1)))
    reader.accept(reader.read()[0])
    airflow.asset_states.clear()
    airflow.other = by_alice
    reader.accept(reader.read((DESIRED_STATE, REQUIREMENTS))[0])
    reader.accept(reader.read()[0])
    assert (reader.requests.requirements, reader.requests.calendar) == (
        {"job": ParallelismRange(2, 3)},
        {"job": ParallelismRange(1, 4)},
    )


def test_store_is_emptied_although_it_contains_a_newer_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow empties the store, and a user suspends the job before its loop reads again: the override of the user is restored."""
    airflow = FakeComms.install(monkeypatch)
    reader = ControlRequestReader(job_asset("departures").store)
    begin_job("departures", {}, datetime.now(UTC))
    by_alice()
    reader.accept(reader.read()[0])
    airflow.asset_states.clear()
    by_user("suspended")
    documents, is_emptied = reader.read()
    reader.accept(documents)
    assert is_emptied
    assert (reader.requests.desired_state, reader.requests.requirements) == (
        DesiredState.SUSPENDED,
        {"job": ParallelismRange(2, 3)},
    )


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


def test_new_marker_replaces_the_marker_of_the_job_and_becomes_the_newest() -> None:
    text = json.dumps({"a": "1", "b": "2"})
    markers = json.loads(with_new_marker(text, "a"))
    assert list(markers) == ["b", "a"]
    assert markers["a"] != "1"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null"])
def test_invalid_text_counts_as_no_markers(text: str) -> None:
    assert list(json.loads(with_new_marker(text, "a"))) == ["a"]


def test_only_the_newest_markers_are_kept() -> None:
    text = json.dumps({str(number): "x" for number in range(MAX_MARKERS)})
    markers = json.loads(with_new_marker(text, "a"))
    assert (len(markers), next(iter(markers)), list(markers)[-1]) == (MAX_MARKERS, "1", "a")


def test_first_notification_creates_the_variable(airflow: FakeComms) -> None:
    notify("departures")
    assert list(read_markers()) == ["departures"]


def test_task_of_a_team_does_not_create_the_variable_that_all_teams_read(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several teams, a task of one team is the first to make a request: its Variable would be hidden from all others."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    notify("departures")
    assert airflow.variables == {}
    airflow.variables[VARIABLE] = "{}"
    notify("departures")
    assert list(read_markers()) == ["departures"]


def test_marker_is_read_in_the_background_and_once_for_all_jobs() -> None:
    clock = ManualClock()
    reads: list[Callable[[], Any]] = []

    async def call(read: Callable[[], Any]) -> Any:
        reads.append(read)
        return {"a": "1"}

    async def story() -> None:
        markers = ChangeMarkers(call, clock, timedelta(seconds=2))
        assert (markers.marker("a"), markers.marker("b")) == (None, None)
        await asyncio.sleep(0)
        assert (markers.marker("a"), markers.marker("b"), len(reads)) == ("1", None, 1)
        await clock.sleep(2)
        assert markers.marker("a") == "1"
        await asyncio.sleep(0)
        assert len(reads) == 2

    asyncio.run(story())
