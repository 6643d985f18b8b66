"""Documents in the state store: a list reads the last point of long time series only."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from airflow_adaptive._engine.publishing.time_series import COLUMNS
from tests.support.airflow.airflow_app import AirflowApp

KEY = "metrics/10"


def series(points: int, **more: Any) -> dict[str, Any]:
    """A page of a time series, as the loop publishes it."""
    found = [[at, 2, 1, 4, 40.5, None, 500, 0, "Executing"] for at in range(points)]
    return {"step": 10, "columns": list(COLUMNS), "newest": found[-1] if found else [], **more, "points": found}


def read(airflow_app: AirflowApp, document: Any, *time_series: str) -> Any:
    """Store a document, and read it."""
    from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

    asset = state_store.StoreKey(airflow_app.declare("departures"))
    airflow_app.show(asset.asset_id, {KEY: document, "other": document})
    with airflow_app.session() as session:
        found = state_store.read([asset], [KEY, "other"], session, time_series)[asset].documents
    assert found["other"] == document
    return found.get(KEY)


@pytest.mark.parametrize("points", [0, 1, 10, 11, 12, 360])
def test_columns_and_newest_point_remain(airflow_app: AirflowApp, points: int) -> None:
    document = series(points)
    del document["points"]
    assert read(airflow_app, series(points), KEY) == document


def test_longest_point_remains(airflow_app: AirflowApp) -> None:
    """The begin of a page contains a point whose numbers have as many characters as JSON needs at most."""
    longest = [
        2**53,
        2**31,
        2**31,
        2**31,
        *[-sys.float_info.max] * 2,
        2**53,
        2**53,
        "WaitingForResources",
        -sys.float_info.max,
        2**53,
        -sys.float_info.max,
        2**53,
    ]
    assert len(longest) == len(COLUMNS)
    assert read(airflow_app, {**series(9), "newest": longest, "points": [longest] * 9}, KEY)["newest"] == longest


@pytest.mark.parametrize("lines", ["[\n[", "\n[[", "[[\n", "[[\r\n", "[[\n\n"])
def test_line_breaks_in_the_points_do_not_hide_the_newest_point(airflow_app: AirflowApp, lines: str) -> None:
    """Whatever writes the document may break its lines; the database cuts it among the points."""
    from airflow.state import AssetScope  # noqa: PLC0415
    from airflow.state.metastore import MetastoreBackend  # noqa: PLC0415

    from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

    document = series(360)
    text = json.dumps(document).replace('"points": [[', f'"points": {lines}').replace("], [", "],\n[")
    assert json.loads(text) == document
    asset = state_store.StoreKey(airflow_app.declare("departures"))
    with airflow_app.session() as session:
        MetastoreBackend().set(AssetScope(asset_id=asset.asset_id), KEY, text, session=session)
    with airflow_app.session() as session:
        found = state_store.read([asset], [KEY], session, [KEY])[asset].documents[KEY]
    assert found == {key: value for key, value in document.items() if key != "points"}


def test_documents_are_complete_by_default(airflow_app: AirflowApp) -> None:
    assert read(airflow_app, series(360)) == series(360)


@pytest.mark.parametrize("document", [{"points": "[" * 2000}, ["x" * 2000], "y" * 2000, series(360, more="z" * 900)])
def test_other_long_documents_are_ignored(airflow_app: AirflowApp, document: Any) -> None:
    assert read(airflow_app, document, KEY) is None
