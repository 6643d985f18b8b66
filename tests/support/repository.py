"""The place of the repository that the tests belong to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""Directory of the checkout: it contains `Makefile`, `docs` and `dags`."""

METRIC_ROWS: Final = re.findall(
    r"^\| `(\w+)` \| (gauge|counter) \| (?:-|`(\w+)`) \|",
    (ROOT / "docs" / "reference" / "metrics.md").read_text(),
    re.MULTILINE,
)

METRICS: Final[dict[str, tuple[str, str | None]]] = {name: (kind, tag or None) for name, kind, tag in METRIC_ROWS}
"""Metric -> its type, and its tag beside those of the job, from the table of all metrics."""
