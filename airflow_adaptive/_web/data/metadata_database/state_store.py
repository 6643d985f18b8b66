"""Documents of jobs: in the state store of Assets, or before Airflow 3.3 in Variables and XComs (`variables_and_xcoms`).

After an upgrade to Airflow 3.3, a job that does not run has its documents in Variables and XComs until its task moves them (`_airflow.store.job_asset`),
the attempt last. Until then both places are read; a document in the state store is newer, because all programs write there.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, and_, case, func, or_, select
from sqlalchemy.orm import Session

from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.internals import AssetModel, conf
from airflow_adaptive._airflow.store.storable import storable
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._core.ports import SEPARATOR
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._web.data.metadata_database import deleted_tasks, variables_and_xcoms

log = logging.getLogger(__name__)

REFERENCE: Final = "__airflow_state_ref__"
"""Field of a value that a worker has written to the storage of `[workers] state_store_backend`. The value is elsewhere."""

BEGIN_CHARACTERS: Final = 800
"""Characters at the begin of a time series that contain its columns and its newest point (`_engine.publishing.time_series`)."""

_POINTS: Final = re.compile(r',\s*"points":\s*\[.*', re.DOTALL)


class StoreKey(NamedTuple):
    """The place of the documents of one job: the id of its Asset, and the prefix of its keys; empty for an Asset with one job."""

    asset_id: int
    prefix: str = ""


Store = StoreKey | TaskKey
"""The place of the documents of one job: the state store of its Asset, or the XComs of a task that was deleted (`deleted_tasks`)."""


class Stored(NamedTuple):
    """Documents of one job by key, and the time of the last write of each."""

    documents: dict[str, Any]
    revisions: dict[str, datetime]


def has_state_store() -> bool:
    """Return whether Airflow has the state store of Assets, which takes the place of Variables and XComs."""
    return airflow_internals.has("AssetStateStoreModel")


def backend_problem() -> str | None:
    """Return the reason why the state store has no documents of jobs, None if it is in Airflow's database."""
    if not has_state_store():
        return None
    default = airflow_internals.MetastoreBackend
    if issubclass(conf.getimport("state_store", "backend") or default, default):
        return None
    return (
        "The option [state_store] backend moves the state of jobs out of Airflow's database. The REST API and the page read only the "
        "database. Remove the option, and restart Airflow."
    )


def documents(stores: Iterable[Store], keys: Iterable[str] | None, session: Session) -> dict[Store, dict[str, Any]]:
    """Job -> key -> document. `keys` selects the documents, None selects all documents. Invalid JSON is omitted."""
    return {store: found.documents for store, found in read(stores, keys, session).items()}


def read(
    stores: Iterable[Store], keys: Iterable[str] | None, session: Session, time_series: Collection[str] = ()
) -> dict[Store, Stored]:
    """Job -> documents. Invalid JSON is omitted, and numbers that JSON does not support are None.

    Args:
        stores: places of the documents.
        keys: keys of the documents, None for all documents.
        session: session of the database.
        time_series: keys of time series of which only the newest point is needed. The database reads only the begin of these documents:
            the time series of a thousand jobs have 40 MB.
    """
    places = [*stores]
    tasks = [store for store in places if isinstance(store, TaskKey)]
    of_tasks = deleted_tasks.read(tasks, session) if tasks else {}
    found: dict[Store, Stored] = {task: Stored(*documents) for task, documents in of_tasks.items()}
    of_assets = [store for store in places if isinstance(store, StoreKey)]
    if not of_assets:
        return found
    found |= {store: Stored({}, {}) for store in of_assets}
    if not has_state_store():
        return _with_earlier(found, of_assets, keys, session, time_series)
    names = None if keys is None else {*keys}
    model, cut = airflow_internals.AssetStateStoreModel, _full_keys(of_assets, time_series)
    is_moved = set()
    begin = case((model.key.in_(cut), func.substr(model.value, 1, BEGIN_CHARACTERS, type_=Text)), else_=model.value)
    query = select(model.asset_id, model.key, begin if cut else model.value, model.updated_at)
    of_jobs = _is_in(of_assets, None if names is None else {*names, ATTEMPT})
    for asset_id, full_key, value, updated_at in session.execute(query.where(of_jobs)):
        store, key = _split(asset_id, full_key)
        if key == ATTEMPT:
            is_moved.add(store)
        if store not in found or (names is not None and key not in names):
            continue
        found[store].revisions[key] = updated_at
        text = _POINTS.sub("}", value, 1) if full_key in cut else value
        try:
            found[store].documents[key] = storable(json.loads(text, parse_constant=lambda _: None))
        except (ValueError, RecursionError):
            log.warning("The document %r of Asset %s is ignored because it is not valid JSON", full_key, asset_id)
    return _with_earlier(found, [store for store in of_assets if store not in is_moved], names, session, time_series)


def _with_earlier(
    found: dict[Store, Stored],
    stores: Collection[StoreKey],
    keys: Iterable[str] | None,
    session: Session,
    time_series: Collection[str],
) -> dict[Store, Stored]:
    """Return what was found, and the other documents of some jobs in Variables and XComs."""
    for document in variables_and_xcoms.read(stores, keys, session, time_series) if stores else ():
        stored = found[StoreKey(*document.place)]
        if document.key not in stored.revisions:
            stored.documents[document.key], stored.revisions[document.key] = document.document, document.at
    return found


def _is_in(stores: Collection[StoreKey], keys: Iterable[str] | None) -> ColumnElement[bool]:
    """Select documents of some jobs, for several jobs of a fleet the documents of the whole fleet."""
    model = airflow_internals.AssetStateStoreModel
    of_jobs = model.asset_id.in_({store.asset_id for store in stores})
    if keys is not None:
        return and_(of_jobs, model.key.in_(_full_keys(stores, keys)))
    prefix = next(iter(stores)).prefix if len(stores) == 1 else ""
    return and_(of_jobs, model.key.startswith(prefix, autoescape=True)) if prefix else of_jobs


def _full_keys(stores: Iterable[StoreKey], keys: Iterable[str]) -> set[str]:
    """Return the keys of documents with the prefixes of the jobs."""
    prefixes = {store.prefix for store in stores}
    return {f"{prefix}{key}" for key in keys for prefix in prefixes}


def _split(asset_id: int, full_key: str) -> tuple[StoreKey, str]:
    """Return the job of a row, and the key without the prefix of the job."""
    job, separator, key = full_key.rpartition(SEPARATOR)
    return StoreKey(asset_id, f"{job}{separator}"), key


def keys(
    assets: Select[int, str], prefix: str | None, names: Collection[str], session: Session
) -> Iterable[tuple[int, str, str]]:
    """Return the Asset, its name and the full key of each document with one of these names. `prefix` selects one job, None selects all jobs."""
    earlier = variables_and_xcoms.keys(assets, prefix, names, session)  # Nothing is read yet.
    if not has_state_store():
        return earlier
    model = airflow_internals.AssetStateStoreModel
    key, of_assets = model.key, model.asset_id == AssetModel.id
    is_one: ColumnElement[bool] = key.in_([f"{prefix}{name}" for name in names])
    if prefix is None:
        is_one = or_(key.in_(names), *(key.endswith(f"{SEPARATOR}{name}", autoescape=True) for name in names))
    found = [tuple(row) for row in session.execute(assets.add_columns(key).join(model, of_assets).where(is_one))]
    is_moved = prefix is not None and f"{prefix}{ATTEMPT}" in {full_key for _, _, full_key in found}
    return found if is_moved else chain(found, earlier)


def write(store: StoreKey, key: str, document: Any, session: Session) -> None:
    """Store a document of a job."""
    if not has_state_store():
        variables_and_xcoms.write(store, key, document, session)
        return
    airflow_internals.MetastoreBackend().set_asset_state_store(
        airflow_internals.AssetScope(asset_id=store.asset_id),
        f"{store.prefix}{key}",
        json.dumps(document),
        kind=airflow_internals.AssetStateStoreWriterKind.API,
        session=session,
    )


def revisions(store: Store, session: Session) -> dict[str, datetime]:
    """Key -> time of the last write of each document of a job."""
    if isinstance(store, TaskKey):
        return deleted_tasks.read([store], session)[store][1]
    if not has_state_store():
        return variables_and_xcoms.revisions(store, session)
    model = airflow_internals.AssetStateStoreModel
    rows = session.execute(select(model.asset_id, model.key, model.updated_at).where(_is_in([store], None)))
    written = [(_split(row.asset_id, row.key), row.updated_at) for row in rows]
    found = {key: at for (of, key), at in written if of == store}
    return found if ATTEMPT in found else variables_and_xcoms.revisions(store, session) | found
