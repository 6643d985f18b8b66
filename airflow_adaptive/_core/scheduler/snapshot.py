"""The state of the scheduler as JSON, with a version. A snapshot with another version is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive._core import codec
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.state import SchedulerState

VERSION = 1
"""Version of the layout of a snapshot."""


def to_json(state: SchedulerState) -> dict[str, Any]:
    """Return the state as values that JSON can represent."""
    return {"snapshot": VERSION, **codec.encode(state)}


def from_json(data: Mapping[str, Any]) -> SchedulerState:
    """Return the state that `to_json` encoded.

    Raises:
        SnapshotError: the snapshot is damaged or has another version.
    """
    version = data.get("snapshot")
    if version != VERSION:
        raise SnapshotError(
            f"snapshot of version {version!r} cannot be read by version {VERSION}: upgrade airflow-adaptive"
        )
    decoded: SchedulerState = decode(SchedulerState, data)
    return decoded


def decode(hint: Any, data: Any) -> Any:
    """Return the value of type `hint` that `encode` encoded.

    Raises:
        SnapshotError: the data is damaged. Whatever is wrong with it, a reader gets this error, so that it can skip the data.
    """
    try:
        return codec.decode(hint, data)
    except codec.DecodeError as error:
        raise SnapshotError(f"damaged snapshot: {error}") from error.__cause__
