"""Many jobs with the documents of a job that has run for an hour, inserted with few statements."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from airflow_adaptive._airflow.store.job_asset import JOBS
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import published, reported
from tests.support.airflow.published_jobs import rescaled_twice, time_series

DAGS: Final = 20

NAME: Final = "departures"


def insert_jobs(airflow_app: AirflowApp, count: int) -> list[str]:
    """Insert jobs in several DAGs, and return their names in the order of the list."""
    from airflow.models.asset import (  # noqa: PLC0415
        AssetActive,
        AssetModel,
        TaskInletAssetReference,
        TaskOutletAssetReference,
    )
    from airflow.models.asset_state_store import AssetStateStoreModel  # noqa: PLC0415
    from sqlalchemy import insert, select  # noqa: PLC0415

    names = [f"{NAME}-{number:04}" for number in range(count)]
    for number in range(DAGS):
        airflow_app.dag(f"flights-{number}")
    texts = _documents()
    with airflow_app.session() as session:
        assets = [{"name": f"{JOBS}{name}", "uri": f"{JOBS}{name}", "group": "asset", "extra": {}} for name in names]
        session.execute(insert(AssetModel), assets)
        session.execute(insert(AssetActive), [{"name": it["name"], "uri": it["uri"]} for it in assets])
        assets_found = session.execute(select(AssetModel.name, AssetModel.id))
        ids = {name.removeprefix(JOBS): id_ for name, id_ in assets_found}
        references = [
            {"asset_id": ids[name], "dag_id": f"flights-{number % DAGS}", "task_id": name}
            for number, name in enumerate(names)
        ]
        for model in (TaskInletAssetReference, TaskOutletAssetReference):
            session.execute(insert(model), references)
        at = datetime.now(UTC)
        rows: list[dict[str, Any]] = [
            {"asset_id": ids[name], "key": key, "value": text.replace(NAME, name), "updated_at": at}
            for name in names
            for key, text in texts.items()
        ]
        session.execute(insert(AssetStateStoreModel), rows)
    return names


def _documents() -> dict[str, str]:
    """Key -> JSON of the documents of a job."""
    job = rescaled_twice(NAME)
    documents = {"desired_state": {"value": "running"}, **published(job), **reported(), **time_series(job)}
    return {key: json.dumps(document) for key, document in documents.items()}
