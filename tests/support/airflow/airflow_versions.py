"""Earlier versions of Airflow, simulated by the absence of the names that they do not have."""

from __future__ import annotations

import pytest

from airflow_adaptive import airflow_internals
from airflow_adaptive.airflow_internals import INTERNALS, Internal

STATE_STORE = (
    "AssetScope",
    "AssetStateStoreAccessor",
    "AssetStateStoreModel",
    "AssetStateStoreWriterKind",
    "MetastoreBackend",
)
"""Names of the state store of Assets, which Airflow has from 3.3 on."""


def remove_state_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow have no state store of Assets, as before 3.3."""
    for name in STATE_STORE:
        monkeypatch.setitem(INTERNALS, name, Internal((f"airflow.of_a_later_version:{name}",), "a test"))
        monkeypatch.delitem(vars(airflow_internals), name, raising=False)
