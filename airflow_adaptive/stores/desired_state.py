"""The wish for a job as its own task sees to it: left when a run begins, taken back when its end is told; all of it blocks."""

from __future__ import annotations

from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import DesiredState
from airflow_adaptive.runtime.publishing.documents import DESIRED_STATE, wish_of
from airflow_adaptive.stores.change_marker import note


def ask(job: str, desired_state: DesiredState) -> None:
    """Leave a wish for a job, and a sign that it is there."""
    AssetStateStoreAccessor(name=job).set(DESIRED_STATE, desired_state.value)
    note(job)


def asked(job: str) -> DesiredState | None:
    """What was asked last; None without a wish, or one that is not understood."""
    return wish_of(AssetStateStoreAccessor(name=job).get(DESIRED_STATE))


def forget(job: str) -> None:
    """Take back whatever was asked."""
    AssetStateStoreAccessor(name=job).delete(DESIRED_STATE)
