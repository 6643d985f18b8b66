"""The provider metadata matches the package."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec

import jsonschema

from airflow_adaptive.provider_info import get_provider_info


def test_provider_info_is_valid() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_provider_info_names_modules_that_exist() -> None:
    info = get_provider_info()
    entries = [entry for kind in ("operators", "sensors", "hooks", "triggers") for entry in info[kind]]
    modules = [module for entry in entries for module in entry["python-modules"]]
    modules += [link.rpartition(".")[0] for link in info["extra-links"]]
    assert [module for module in modules if find_spec(module) is None] == []


def test_airflow_finds_the_provider() -> None:
    found = entry_points(group="apache_airflow_provider")
    ours = [entry for entry in found if entry.module == get_provider_info.__module__]
    assert [entry.load() for entry in ours] == [get_provider_info]
