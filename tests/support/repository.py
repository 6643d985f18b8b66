"""The place of the repository that the tests belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""Directory of the checkout: it contains `Makefile`, `docs` and `dags`."""
