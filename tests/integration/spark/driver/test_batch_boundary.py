"""Queries on real Spark end, or are held, only between two batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.driver import batch_boundary_experiment
from tests.support.driver.experiment import run_experiment

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = run_experiment(
        batch_boundary_experiment, tmp_path_factory.mktemp("boundary")
    )
    return found


def test_no_batch_is_cut_whenever_queries_are_ended(trials: dict[str, list[dict[str, Any]]]) -> None:
    assert [end for end in trials["ended"] if end["began"] != end["committed"] or not end["exact"]] == []
    assert max(max(end["committed"]) for end in trials["ended"] if "busy" in end["kinds"]) > 3
    assert {len(end["kinds"]) for end in trials["ended"]} == {1, len(batch_boundary_experiment.TRIGGERS)}


def test_an_ended_query_is_gone_without_failure(trials: dict[str, list[dict[str, Any]]]) -> None:
    assert [end for end in trials["ended"] if end["active"] or end["registered"] or end["failed"]] == []


def test_a_query_that_waits_for_its_trigger_ends_without_the_trigger(trials: dict[str, list[dict[str, Any]]]) -> None:
    """The next trigger is an hour away: a query that waited for it would be cut after the timeout of the experiment."""
    ended = [end["exact"] for end in trials["ended"] if end["kinds"] == ["sleeping"]]
    assert ended == [True] * batch_boundary_experiment.TRIALS.count(("sleeping",))


def test_no_batch_runs_while_queries_are_held(trials: dict[str, list[dict[str, Any]]]) -> None:
    assert [hold for hold in trials["held"] if not hold["held"]] == []
    for hold in trials["held"]:
        (offsets, commits, stages), later = hold["seen"]
        assert offsets == commits, "none was begun"
        assert stages == []
        assert later == hold["seen"][0], "none began"


def test_held_queries_go_on_when_they_are_let_go(trials: dict[str, list[dict[str, Any]]]) -> None:
    before, after = (trials["held"][hold]["seen"][0][1] for hold in (0, batch_boundary_experiment.HOLDS - 1))
    assert all(later > earlier for earlier, later in zip(before[:2], after[:2], strict=True))


def test_queries_go_on_when_one_comes_to_no_boundary_in_time(trials: dict[str, list[dict[str, Any]]]) -> None:
    (trial,) = trials["impatient"]
    assert not trial["held"]
    assert trial["acts"] == []
    assert trial["held_s"] >= batch_boundary_experiment.IMPATIENT_S


def test_only_the_query_that_comes_to_no_boundary_in_time_is_cut(trials: dict[str, list[dict[str, Any]]]) -> None:
    (trial,) = trials["impatient"]
    ticking, stuck = (began - committed for began, committed in zip(trial["began"], trial["committed"], strict=True))
    assert (ticking, stuck) == (0, 1)
    assert not trial["exact"]
    assert not trial["active"]
