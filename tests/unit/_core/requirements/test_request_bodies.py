"""FLIP-291's bodies, apart from HTTP: what is parse_json, what is written, and which version it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.requirements.request_bodies import (
    NotRescalableError,
    admit,
    decode_bounds,
    encode_requirements,
    parse_expiry,
    parse_json,
    require_rescalable,
    unique_fields,
    version_of,
)
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobType
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from tests.lab.scenario import HOPELESS, Scenario

STATE = Scenario(1, 4).state
BATCH = Scenario(graph=replace(JobGraph.single("job", ParallelismRange(1, 4)), job_type=JobType.BATCH))
FAILED = Scenario(1, 4).given_executing(2).when_query_failed(HOPELESS).when_driver_ended()

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["job", "parallelism", "lowerBound", "upperBound", "x"]), inner)
    ),
    max_leaves=10,
)


def violations(work: Callable[[], object]) -> Sequence[str]:
    """What is wrong, nothing if nothing is."""
    try:
        work()
    except RequirementsError as error:
        return error.violations
    return ()


@given(JSON)
def test_any_body_is_accepted_or_refused_with_reasons(body: object) -> None:
    assert violations(lambda: admit(body, STATE)) or admit(body, STATE).keys() == {"job"}


@given(st.integers(1, 128), st.integers(1, 128))
def test_what_is_written_is_read_as_it_was(one: int, other: int) -> None:
    requirements = {"job": ParallelismRange(min(one, other), max(one, other))}
    body = encode_requirements(requirements)
    assert admit(body, STATE) == decode_bounds(body) == requirements


@given(st.binary())
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    assert len(violations(lambda: parse_json(body))) <= 1


def test_version_is_that_of_the_bounds_not_of_their_order() -> None:
    one, other = {"a": ParallelismRange(1, 2), "b": ParallelismRange(1, 3)}, {"b": ParallelismRange(1, 3)}
    assert version_of(one) == version_of({**other, **one})
    assert version_of(one) != version_of({"a": ParallelismRange(1, 2), "b": ParallelismRange(1, 4)})


def test_lower_bound_of_minus_one_is_one_as_in_flip_291() -> None:
    body = {"job": {"parallelism": {"lowerBound": -1, "upperBound": 8}}}
    assert admit(body, Scenario(2, 4).state) == {"job": ParallelismRange(1, 8)}


@pytest.mark.parametrize(
    ("state", "ended", "kind"),
    [
        (None, ("BATCH", None), "batch"),
        (None, ("BATCH", "FAILED"), "batch"),
        (BATCH.state, (None, None), "batch"),
        (None, ("STREAMING", "CANCELED"), "finished"),
        (STATE, ("STREAMING", "FINISHED"), "finished"),
        (FAILED.state, (None, None), "finished"),
        (Scenario(1, 4, reactive=True).state, ("STREAMING", None), "reactive"),
    ],
)
def test_job_that_cannot_have_other_requirements_is_known_by_its_published_state(
    state: SchedulerState | None, ended: tuple[str | None, str | None], kind: str
) -> None:
    with pytest.raises(NotRescalableError, match="Job 'departures' ") as refused:
        require_rescalable("departures", state, *ended)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("state", "ended"), [(STATE, ("STREAMING", None)), (STATE, ("STREAMING", "SUSPENDED")), (None, (None, None))]
)
def test_job_that_can_go_on_may_have_other_requirements(
    state: SchedulerState | None, ended: tuple[str | None, str | None]
) -> None:
    require_rescalable("departures", state, *ended)


def test_check_for_duplicate_fields_is_linear():
    """A body with thousands of fields, the last of which occurs twice, once cost seconds of CPU time."""
    hashes = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal hashes
            hashes += 1
            return str.__hash__(self)

    names = [Name(f"vertex-{number}") for number in range(2_000)]
    with pytest.raises(ValueError, match='"vertex-1999" occurs twice'):
        unique_fields([(name, 1) for name in [*names, names[-1]]])
    assert hashes <= 10 * len(names)


@pytest.mark.parametrize(
    ("duration", "until"),
    [
        ("36500 d", None),
        ("3153600000", None),
        (None, "9999-12-31T23:59:59.999999-14:00"),
        (None, "0001-01-01T00:00:00+14:00"),
    ],
)
def test_expiry_at_the_end_of_the_calendar_is_one_error(duration: str | None, until: str | None) -> None:
    with pytest.raises(ValueError, match=f"{duration or until}.* is beyond the years 1 to 9999".replace("+", r"\+")):
        parse_expiry(duration, until, datetime(9990, 1, 1, tzinfo=UTC))
