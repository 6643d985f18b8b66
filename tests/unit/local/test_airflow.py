"""The files of the local Airflow bind it to this machine and hide its passwords."""

from __future__ import annotations

import stat
from configparser import ConfigParser
from pathlib import Path

import pytest

from airflow_adaptive.local.airflow import (
    LocalAirflow,
    LocalAirflowError,
    as_text,
    default_config,
    merged,
    write_private,
)


def test_config_is_read_back_as_written(tmp_path: Path) -> None:
    parser = ConfigParser()
    parser.read_string(as_text({"a": {"x": "50%", "y": ""}}))
    assert dict(parser["a"]) == {"x": "50%", "y": ""}


def test_override_wins_option_by_option() -> None:
    config = merged({"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}, {"a": {"y": "9"}, "c": {"w": "4"}})
    assert config == {"a": {"x": "1", "y": "9"}, "b": {"z": "3"}, "c": {"w": "4"}}


def test_default_config_binds_to_this_machine_only(tmp_path: Path) -> None:
    config = default_config(tmp_path, tmp_path / "dags", "http://127.0.0.1:1234")
    assert (config["api"]["host"], config["api"]["port"]) == ("127.0.0.1", "1234")


def test_private_file_is_for_its_owner_only_even_if_it_was_not(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o644)
    write_private(file, "x")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("x", 0o600)


def test_api_is_refused_before_start(tmp_path: Path) -> None:
    with pytest.raises(LocalAirflowError, match="start"):
        _ = LocalAirflow(tmp_path / "home", tmp_path).api
