"""Lazy exports of packages: `import airflow_adaptive.operators` imports no operator before its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a `__getattr__` function (PEP 562) that imports the module of an exported name on its first use.

    Args:
        package: name of the package.
        modules: module -> names that the package exports from the module.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def exported(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return exported
