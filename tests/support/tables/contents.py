"""The rows of tables, read without Spark, and tables that are deleted and created again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow
from deltalake import DeltaTable, write_deltalake
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


def recreate_delta(folder: Path) -> None:
    """Delete a Delta table, and create it again without rows."""
    schema = DeltaTable(str(folder)).schema()
    shutil.rmtree(folder)
    DeltaTable.create(str(folder), schema)


def recreate_iceberg(folder: Path) -> None:
    """Delete an Iceberg table of a Hadoop catalog, and create it again without rows."""
    first = json.loads((folder / "metadata" / "v1.metadata.json").read_text())
    shutil.rmtree(folder)
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "v1.metadata.json").write_text(json.dumps({**first, "table-uuid": str(uuid4())}))
    (folder / "metadata" / "version-hint.text").write_text("1")


def replace_delta(folder: Path) -> None:
    """Delete a Delta table, and create it again with the same rows and more commits."""
    rows = DeltaTable(str(folder)).to_pyarrow_table()
    recreate_delta(folder)
    for _ in range(5):
        write_deltalake(str(folder), rows, mode="append")


def replace_iceberg(folder: Path) -> None:
    """Replace an Iceberg table of a Hadoop catalog that has one snapshot by another one with the same rows and one more version."""
    metadata = folder / "metadata"
    text = (metadata / "v2.metadata.json").read_text()
    found = json.loads(text)
    text = text.replace(found["table-uuid"], str(uuid4())).replace(str(found["current-snapshot-id"]), "1234567")
    for checksum in metadata.glob(".*.crc"):
        checksum.unlink()
    for version in (2, 3):
        (metadata / f"v{version}.metadata.json").write_text(text)


RECREATIONS = {"delta": recreate_delta, "iceberg": recreate_iceberg}
REPLACEMENTS = {"delta": replace_delta, "iceberg": replace_iceberg}

READERS = {"delta": read_delta, "iceberg": read_iceberg}
