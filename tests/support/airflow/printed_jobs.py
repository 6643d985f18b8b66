"""Jobs and properties, as the commands print them."""

from __future__ import annotations

import json
from typing import Any

from tests.unit._web.cli.conftest import Run


def properties(out: str) -> dict[str, str]:
    """A table of two columns."""
    rows = [line.partition("|") for line in out.splitlines() if "|" in line]
    return {name.strip(): value.strip() for name, _, value in rows}


def requirements(run: Run) -> dict[str, Any]:
    return dict(json.loads(run("requirements", "get", "departures", "-o", "json").out))
