"""The rows of tables, read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
from deltalake import DeltaTable
from pyiceberg.table import StaticTable


def read_delta(folder: Path) -> pyarrow.Table | None:
    """Return the rows of a Delta table, None without a table."""
    if not any((folder / "_delta_log").glob("*.json")):
        return None
    return DeltaTable(str(folder)).to_pyarrow_table()


def read_iceberg(folder: Path) -> pyarrow.Table | None:
    """Return the rows of an Iceberg table of a Hadoop catalog, None without a table."""
    found = iceberg_table(folder)
    return None if found is None else found.scan().to_arrow()


def iceberg_table(folder: Path) -> Any:
    """Return an Iceberg table of a Hadoop catalog, None without a table."""
    versions = [int(file.name[1:].partition(".")[0]) for file in (folder / "metadata").glob("v*.metadata.json")]
    return StaticTable.from_metadata(str(folder / "metadata" / f"v{max(versions)}.metadata.json")) if versions else None


READERS = {"delta": read_delta, "iceberg": read_iceberg}
