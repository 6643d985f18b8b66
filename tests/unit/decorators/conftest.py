"""A DAG file for the tests of decorated functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.decorated_functions import Load


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return the function `build` of a DAG file with this text."""

    def load(text: str, name: str = "build", **names: Any) -> Any:
        file = tmp_path / "dag_file.py"
        file.write_text(dedent(text))
        spec = importlib.util.spec_from_file_location("dag_file", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return load
