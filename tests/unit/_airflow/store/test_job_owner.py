"""The task to which a job belongs, and the folder in which it was deployed last, in the state store of its asset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.execution_time import task_runner

from airflow_adaptive._airflow.store import job_asset
from airflow_adaptive._airflow.store.job_asset import GATES, claim_name, record, recorded, require_owner
from airflow_adaptive._airflow.store.task_xcoms import BASE, OWNER
from airflow_adaptive._core.ports import OwnedJobError, UnavailableError
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


def test_folder_is_recorded_and_read_back(airflow: FakeComms) -> None:
    assert recorded("departures", BASE) is None
    record("departures", BASE, "s3://bucket/jobs")
    assert (recorded("departures", BASE), airflow.asset_states) == ("s3://bucket/jobs", {BASE: "s3://bucket/jobs"})


@pytest.mark.parametrize("stored", [7, ["s3://bucket"], {"base": "s3://bucket"}], ids=repr)
def test_value_that_is_no_text_counts_as_not_deployed(airflow: FakeComms, stored: object) -> None:
    airflow.asset_states = {BASE: stored}
    assert recorded("departures", BASE) is None


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
    airflow.asset_states = dict.fromkeys(GATES, gate)
    claim_name("departures", "flights/stream", None)


def test_gate_of_a_task_that_died_closes_the_name_for_a_short_time(airflow: FakeComms) -> None:
    def died(task: str, minutes: float) -> dict[str, Any]:
        return {GATES[0]: {"task": task, "at": (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()}}

    airflow.asset_states = died("copies/stream", 1)
    with pytest.raises(UnavailableError, match="claims job 'departures' at the same moment"):
        claim_name("departures", "flights/stream", None, no_pause)
    for states in (died("copies/stream", 3), died("flights/stream", 0)):
        airflow.asset_states = states
        claim_name("departures", "flights/stream", None)


def no_pause(_: float) -> None:
    """Wait for nothing: the other claims continue between two reads."""


class _Suspended(BaseException):
    """A claim comes to its next call."""


class _Waits(BaseException):
    """A claim waits for the owner that another claim writes."""


def _wait(_: float) -> None:
    raise _Waits


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """A claim between two calls. It is repeated with the answers that it has received, up to its next call.

    Attributes:
        task: the task that claims the name.
        answers: to the calls before.
        end: of the claim, "" before it.
    """

    task: str
    answers: tuple[Any, ...] = ()
    end: str = ""

    def step(self, airflow: FakeComms) -> _Claim:
        """Return the claim after one more call."""
        answers = list(self.answers)
        calls = 0

        def send(message: Any) -> Any:
            nonlocal calls
            if calls == len(answers):
                if calls > len(self.answers):
                    raise _Suspended
                answers.append(airflow.send(message))
            calls += 1
            return answers[calls - 1]

        cast(Any, task_runner).SUPERVISOR_COMMS = SimpleNamespace(send=send)
        try:
            claim_name("departures", self.task, None, _wait)
            end = "succeeds"
        except OwnedJobError:
            end = "is refused"
        except _Waits:
            end = "waits"
        except _Suspended:
            end = ""
        return replace(self, answers=tuple(answers), end=end)

    @property
    def key(self) -> str:
        """Two claims with this key continue in the same way."""
        return repr((self.end, [_without_time(getattr(answer, "value", None)) for answer in self.answers]))


def _without_time(value: Any) -> Any:
    """Return what a claim compares of the value of a document, or of a Variable with a document."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)["document"]
    return value["task"] if isinstance(value, dict) else value


def _histories(tasks: Sequence[str]) -> Iterator[tuple[Sequence[_Claim], str | None]]:
    """Yield the claims and the owner at the end of each history: the calls of the claims come in each order."""
    seen, open_ones = set[str](), [([_Claim(task=task) for task in tasks], dict[str, Any]())]
    while open_ones:
        claims, states = open_ones.pop()
        if all(claim.end for claim in claims):
            yield claims, states.get(OWNER)
        for caller, claim in enumerate(claims):
            if claim.end:
                continue
            airflow = FakeComms()
            airflow.asset_states = dict(states)
            after = [*claims[:caller], claim.step(airflow), *claims[caller + 1 :]]
            key = repr(
                ([it.key for it in after], {key: _without_time(value) for key, value in airflow.asset_states.items()})
            )
            if key not in seen:
                seen.add(key)
                open_ones.append((after, airflow.asset_states))


@pytest.mark.parametrize(
    ("tasks", "gates"),
    [
        (("dag0/stream", "dag7/stream"), 2),
        pytest.param(("dag0/stream", "dag7/stream"), 8, marks=pytest.mark.long),
        pytest.param(("dag/stream", "dag/stream"), 3, marks=pytest.mark.long),
        pytest.param(("dag0/stream", "dag7/stream", "dag0/stream"), 2, marks=pytest.mark.long),
        pytest.param(("dag/stream", "dag/stream", "dag/stream"), 1, marks=pytest.mark.long),
    ],
)
def test_of_claims_at_the_same_moment_only_those_of_one_task_succeed(
    monkeypatch: pytest.MonkeyPatch, tasks: tuple[str, ...], gates: int
) -> None:
    """Two runs of one DAG start at the same moment as well, for example in a backfill. They never refuse each other."""
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", None, raising=False)
    monkeypatch.setattr(job_asset, "GATES", job_asset.GATES[:gates])
    refused = False
    for claims, owner in _histories(tasks):
        succeeded = {claim.task for claim in claims if claim.end == "succeeds"}
        assert succeeded <= {owner}, claims
        refused = refused or owner is None or {owner} != set(tasks)
    assert refused == (len(set(tasks)) > 1)
