"""Lazy exports of packages: `import airflow_adaptive.operators` imports no operator before its first use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_exports(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` of a package, and a `__getattr__` function (PEP 562) that imports the module of a name on its first use.

    The package exports the names that its `TYPE_CHECKING` block imports, so that type checkers and the interpreter read one list.

    Args:
        package: name of the package.
        file: path of the `__init__.py` of the package.
    """
    blocks = [node for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: str(node.module) for node in imports for alias in node.names}

    def exported(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return list(module_of), exported
