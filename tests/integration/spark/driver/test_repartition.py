"""State in another number of partitions, on real Spark; all trials are made once, in a process of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.driver import repartition_experiment
from tests.support.driver.experiment import run_experiment
from tests.support.driver.repartition_experiment import KEYS, PARTITIONS
from tests.support.driver.spark_version import NEEDS_REPARTITION

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), NEEDS_REPARTITION]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = run_experiment(repartition_experiment, tmp_path_factory.mktemp("repartition"))
    return found


@pytest.mark.parametrize(("kind", "value"), [("count", 3), ("join", 9)])
def test_results_are_right_after_more_and_after_fewer_partitions(trials: dict[str, Any], kind: str, value: int) -> None:
    assert trials["moved"][kind] == {"partitions": [3, 1], "keys": KEYS, "values": [value]}


def test_file_sink_can_be_read_after_a_driver_died_during_a_repartition(
    trials: dict[str, Any],
) -> None:
    assert trials["moved"]["distinct"] == {"partitions": [3, 1], "keys": KEYS, "values": [1]}


def test_the_session_does_not_decide_once_there_is_a_checkpoint(trials: dict[str, Any]) -> None:
    assert PARTITIONS not in trials["moved"]["count"]["partitions"]


@pytest.mark.parametrize(("batch", "before"), [("first", 0), ("later", 1)])
def test_a_batch_that_was_cut_is_committed_first_and_none_after_it(
    trials: dict[str, Any], batch: str, before: int
) -> None:
    found = trials["cut"][batch]
    assert found["begun"] == before + 1
    assert found["committed"] == before + 2  # the batch, and the repartition
    assert found["partitions"] == 3
    assert found["values"] == [before + 2]


def test_the_query_keeps_the_trigger_of_its_script(trials: dict[str, Any]) -> None:
    assert trials["cut"]["later"]["trigger"] == "ProcessingTimeTrigger(7000)"


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("zero", "cannot have 0 partition(s): use at least 1"),
        ("format", "checkpointFormatVersion=1: set that, not 2"),
        ("keyless", "operator 0 (stateStoreSave) has no key, so it is always in one partition"),
        ("operator", "operator 0 (globalLimit): Spark cannot read it"),
        ("another", "the state belongs to another query, of stateStoreSave, and this query has dedupe"),
        ("provider", "operator 0 (stateStoreSave): Spark repartitions only RocksDB's state"),
        ("escaped", "characters in its path that are escaped in a URI"),
        ("newer", "upgrade Spark, or use a new checkpoint for the query"),
    ],
)
def test_what_can_not_work_is_found_out_before_anything_is_changed(
    trials: dict[str, Any], what: str, expected: str
) -> None:
    found = trials["refused"][what]
    assert len(found["messages"]) == 2  # by the check, while the query may run, and once more when it has ended
    assert all(expected in message and "checkpoint" in message for message in found["messages"])
    assert found["untouched"]


@pytest.mark.parametrize("kind", ["count", "session", "distinct", "recent", "join"])
def test_operators_are_known_before_the_first_batch_as_the_checkpoint_has_them_after_it(
    trials: dict[str, Any], kind: str
) -> None:
    found = trials["operators"][kind]
    assert found["planned"] == list(dict.fromkeys(found["kept"]))  # a join has four stores
    assert found["planned"]


def test_a_query_without_state_has_no_operators(trials: dict[str, Any]) -> None:
    assert trials["operators"]["stateless"] == {"planned": [], "kept": []}


@pytest.mark.parametrize("what", ["same", "stateless", "new"])
def test_where_nothing_is_to_be_done_nothing_happens(trials: dict[str, Any], what: str) -> None:
    assert trials["refused"][what] == {"messages": [], "untouched": True}


def test_repartition_that_fails_leaves_the_checkpoint_as_it_was(trials: dict[str, Any]) -> None:
    found = trials["failed"]
    assert "cannot have 3 partition(s), and is unchanged: " in found["message"]
    assert found["untouched"]
    assert (found["partitions"], found["values"]) == (3, [3])


@pytest.mark.parametrize("moment", repartition_experiment.MOMENTS)
def test_a_repartition_that_was_killed_is_finished_and_another_one_follows_it(
    trials: dict[str, Any], moment: str
) -> None:
    found = trials["killed"][moment]
    assert found["begun"] == 2
    assert found["partitions"] == found["wanted"]
    assert found["values"] == {"2": 2000}


def test_a_repartition_was_killed_before_it_was_committed(trials: dict[str, Any]) -> None:
    assert min(found["committed"] for found in trials["killed"].values()) == 1
