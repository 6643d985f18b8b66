"""Documents in the state store of Assets."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from airflow.configuration import conf
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.state.metastore import MetastoreBackend
from sqlalchemy import ColumnElement, SQLColumnExpression, Text, and_, case, func, select
from sqlalchemy.orm import Session

from airflow_adaptive.stores.job_asset import SEPARATOR

log = logging.getLogger(__name__)

REFERENCE: Final = "__airflow_state_ref__"
"""Field of a value that a worker has written to the storage of `[workers] state_store_backend`. The value is elsewhere."""


CUT_CHARACTERS: Final = 400
"""Characters at the begin and at the end of a time series that remain after a cut. The begin contains the columns, the end the last point."""

CUT: Final = "\n\n"
"""Place of a cut. Documents have no line breaks."""

_CUT: Final = re.compile(rf'(\A.*?"points": ?\[).*{CUT}.*(\[[^\[]*\Z)', re.DOTALL)


class StoreKey(NamedTuple):
    """The place of the documents of one job.

    Attributes:
        asset_id: id of the Asset.
        prefix: prefix of the keys; empty for an Asset with one job.
    """

    asset_id: int
    prefix: str = ""


def backend_problem() -> str | None:
    """Return the reason why the state store has no documents of jobs, None if it is in Airflow's database."""
    if issubclass(conf.getimport("state_store", "backend") or MetastoreBackend, MetastoreBackend):
        return None
    return (
        "The option [state_store] backend moves the state of jobs out of Airflow's database. The REST API and the page read only the "
        "database. Remove the option, and restart Airflow."
    )


def documents(
    stores: Iterable[StoreKey], keys: Iterable[str] | None, session: Session, time_series: Collection[str] = ()
) -> dict[StoreKey, dict[str, Any]]:
    """Job -> key -> document. Invalid JSON is omitted, and numbers that JSON does not support are None.

    Args:
        stores: places of the documents.
        keys: keys of the documents, None for all documents.
        session: session of the database.
        time_series: keys of time series of which only the last point is needed. The database cuts the other points, if they are many:
            the time series of a thousand jobs have 40 MB.
    """
    found: dict[StoreKey, dict[str, Any]] = {store: {} for store in stores}
    model, prefixes = AssetStateStoreModel, {store.prefix for store in found}
    cut = _cut([f"{prefix}{key}" for prefix in prefixes for key in time_series])
    query = select(model.asset_id, model.key, cut).where(_is_in(found))
    if keys is not None:
        query = query.where(model.key.in_([f"{prefix}{key}" for key in keys for prefix in prefixes]))
    for asset_id, full_key, value in session.execute(query):
        store, key = _split(asset_id, full_key)
        if store not in found:
            continue
        try:
            found[store][key] = json.loads(_CUT.sub(r"\1\2", value), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            log.warning("The document %r of Asset %s is ignored because it is not valid JSON", full_key, asset_id)
    return found


def _is_in(stores: Collection[StoreKey]) -> ColumnElement[bool]:
    """Select the rows of some jobs, for several jobs of a fleet the rows of the whole fleet."""
    model = AssetStateStoreModel
    of_assets = model.asset_id.in_({store.asset_id for store in stores})
    prefix = next(iter(stores)).prefix if len(stores) == 1 else ""
    return and_(of_assets, model.key.startswith(prefix, autoescape=True)) if prefix else of_assets


def _split(asset_id: int, full_key: str) -> tuple[StoreKey, str]:
    """Return the job of a row, and the key without the prefix of the job."""
    job, separator, key = full_key.rpartition(SEPARATOR)
    return StoreKey(asset_id, f"{job}{separator}"), key


def _cut(time_series: Collection[str]) -> SQLColumnExpression[str]:
    """Select the values of documents, without the middle of long time series."""
    value = AssetStateStoreModel.value
    size = func.char_length(value)
    begin, end = (func.substr(value, *part, type_=Text) for part in ((1, CUT_CHARACTERS), (size - CUT_CHARACTERS + 1,)))
    is_long = and_(AssetStateStoreModel.key.in_([*time_series]), size > 2 * CUT_CHARACTERS)
    return case((is_long, begin + CUT + end), else_=value) if time_series else value


def revisions(stores: Iterable[StoreKey], session: Session) -> dict[StoreKey, dict[str, datetime]]:
    """Job -> key -> time of the last write."""
    found: dict[StoreKey, dict[str, datetime]] = {store: {} for store in stores}
    model = AssetStateStoreModel
    for row in session.execute(select(model.asset_id, model.key, model.updated_at).where(_is_in(found))):
        store, key = _split(row.asset_id, row.key)
        if store in found:
            found[store][key] = row.updated_at
    return found
