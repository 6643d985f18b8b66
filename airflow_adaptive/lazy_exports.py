"""Lazy exports of packages: `import airflow_adaptive.operators` imports no operator before its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` of a package, and a `__getattr__` function (PEP 562) that imports the module of a name on its first use.

    The package also imports the names in a `TYPE_CHECKING` block, `as` themselves, because type checkers do not read `modules`.

    Args:
        package: name of the package.
        modules: module -> names that the package exports from the module.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def exported(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return list(module_of), exported
