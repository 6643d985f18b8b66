"""Documents in the state store: a list reads the last point of long time series only."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.runtime.publishing.time_series import COLUMNS
from tests.support.airflow.airflow_app import AirflowApp

KEY = "metrics/10"


def series(points: int, **more: Any) -> dict[str, Any]:
    """A page of a time series, as the loop publishes it."""
    found = [[at, 2, 1, 4, 40.5, None, 500, 0, "Executing"] for at in range(points)]
    return {"step": 10, "columns": list(COLUMNS), "points": found, **more}


def read(airflow_app: AirflowApp, document: Any, *time_series: str) -> Any:
    """Store a document, and read it."""
    from airflow_adaptive.plugin.data.metadata_database import state_store  # noqa: PLC0415

    asset = state_store.StoreKey(airflow_app.declare("departures"))
    airflow_app.show(asset.asset_id, {KEY: document, "other": document})
    with airflow_app.session() as session:
        found = state_store.documents([asset], [KEY, "other"], session, time_series)[asset]
    assert found["other"] == document
    return found.get(KEY)


@pytest.mark.parametrize("points", [0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 30, 360])
def test_last_point_and_columns_remain(airflow_app: AirflowApp, points: int) -> None:
    document = series(points)
    found = read(airflow_app, document, KEY)
    assert found["columns"] == list(COLUMNS)
    assert found["points"][-1:] == document["points"][-1:]


def test_long_time_series_is_cut(airflow_app: AirflowApp) -> None:
    assert read(airflow_app, series(360), KEY) == series(360) | {"points": series(360)["points"][-1:]}


def test_documents_are_complete_by_default(airflow_app: AirflowApp) -> None:
    assert read(airflow_app, series(360)) == series(360)


@pytest.mark.parametrize("document", [{"points": "[" * 2000}, ["x" * 2000], "y" * 2000, series(360, more="z" * 900)])
def test_other_long_documents_are_ignored(airflow_app: AirflowApp, document: Any) -> None:
    assert read(airflow_app, document, KEY) is None
