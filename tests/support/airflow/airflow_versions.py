"""Versions of Airflow: names that only tests use and that have moved, and earlier versions, simulated by the absence of the names that they do not have."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.execution_time import comms

from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.internals import INTERNALS, Internal, has

if TYPE_CHECKING or find_spec("airflow.sdk.serde"):
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferred
    from airflow.sdk.serde import deserialize, serialize
else:  # Airflow 3.1
    from airflow.exceptions import TaskDeferralError, TaskDeferred
    from airflow.serialization.serde import deserialize, serialize

__all__ = ["TaskDeferralError", "TaskDeferred", "comms", "deserialize", "remove_state_store", "serialize", "stores"]

STATE_STORE = (
    "AssetScope",
    "AssetStateStoreAccessor",
    "AssetStateStoreModel",
    "AssetStateStoreWriterKind",
    "MetastoreBackend",
)
"""Names of the state store of Assets, which Airflow has from 3.3 on."""

IN_ASSETS = "3.3"
EARLIER = "before 3.3"

needs_state_store = pytest.mark.skipif(
    not has("AssetStateStoreAccessor"), reason="Airflow has no state store of Assets"
)


class _Unknown:
    """A message that the Task SDK does not have, so that it sends none."""


for _message in ("GetAssetStateStoreByName", "SetAssetStateStoreByName", "DeleteAssetStateStoreByName"):
    if not hasattr(comms, _message):
        setattr(comms, _message, _Unknown)


def stores() -> list[Any]:
    """Return parameters of tests: the places of documents of jobs that this version of Airflow has, or that tests can simulate with it."""
    return [pytest.param(IN_ASSETS, marks=needs_state_store), EARLIER]


def remove_state_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow have no state store of Assets, as before 3.3."""
    for name in STATE_STORE:
        monkeypatch.setitem(INTERNALS, name, Internal((f"airflow.of_a_later_version:{name}",), "a test"))
        monkeypatch.delitem(vars(airflow_internals), name, raising=False)
