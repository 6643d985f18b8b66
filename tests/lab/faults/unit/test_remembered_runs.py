"""A case runs again until it has as many results as `RUNS` requires; shards divide the cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.faults import conftest
from tests.lab.faults.conftest import pytest_collection_modifyitems
from tests.lab.faults.harness import results
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, remember

OUTCOME = Outcome(expected=40, found=40, duplicated=0, repeated=0, drivers_at_once=1, epochs=1, recovery_s=6.6)


def selected(cases: str) -> list[str]:
    """The cases that run, of those with the marker `faults`; a unit test runs always."""
    items: list[Any] = [
        SimpleNamespace(nodeid=case, get_closest_marker=lambda name: name == "faults") for case in cases
    ]
    items.append(SimpleNamespace(nodeid="unit", get_closest_marker=lambda name: None))
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


@pytest.fixture(autouse=True)
def two_runs_of_a_and_one_of_b(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(conftest, "commit", lambda: "1a2b3c4")
    for variable in ("RUNS", "SHARD"):
        monkeypatch.delenv(variable, raising=False)
    remember(Result(case=case, fault=case, where="", outcome=OUTCOME, commit="1a2b3c4") for case in "aba")


def test_case_with_a_result_is_left_out() -> None:
    assert selected("abc") == ["c", "unit"]


def test_case_runs_again_at_another_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "commit", lambda: "5d6e7f8")
    assert selected("abc") == ["a", "b", "c", "unit"]


def test_case_runs_as_often_as_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNS", "2")
    assert selected("abc") == ["b", "c", "unit"]


def test_case_that_violated_a_guarantee_runs_again() -> None:
    outcome = replace(OUTCOME, violations=("1 rows are missing: [3]",))
    remember([Result(case="c", fault="c", where="", outcome=outcome, commit="1a2b3c4")])
    assert selected("abc") == ["c", "unit"]


def test_each_case_is_in_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = []
    for shard in ("1/2", "2/2"):
        monkeypatch.setenv("SHARD", shard)
        shards.append(selected("cdefg"))
    assert shards == [["c", "e", "g", "unit"], ["d", "f", "unit"]]
