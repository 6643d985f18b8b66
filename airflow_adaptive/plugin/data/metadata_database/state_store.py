"""Documents in the state store of Assets."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final

from airflow.configuration import conf
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.state.metastore import MetastoreBackend
from sqlalchemy import SQLColumnExpression, Text, and_, case, func, select
from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

REFERENCE: Final = "__airflow_state_ref__"
"""Field of a value that a worker has written to the storage of `[workers] state_store_backend`. The value is elsewhere."""


CUT_CHARACTERS: Final = 400
"""Characters at the begin and at the end of a time series that remain after a cut. The begin contains the columns, the end the last point."""

CUT: Final = "\n\n"
"""Place of a cut. Documents have no line breaks."""

_CUT: Final = re.compile(rf'(\A.*?"points": ?\[).*{CUT}.*(\[[^\[]*\Z)', re.DOTALL)


def backend_problem() -> str | None:
    """Return the reason why the state store has no documents of jobs, None if it is in Airflow's database."""
    if issubclass(conf.getimport("state_store", "backend") or MetastoreBackend, MetastoreBackend):
        return None
    return (
        "The option [state_store] backend moves the state of jobs out of Airflow's database. The REST API and the page read only the "
        "database. Remove the option, and restart Airflow."
    )


def documents(
    asset_ids: Iterable[int], keys: Iterable[str] | None, session: Session, time_series: Collection[str] = ()
) -> dict[int, dict[str, Any]]:
    """Asset -> key -> document. Invalid JSON is omitted, and numbers that JSON does not support are None.

    Args:
        asset_ids: ids of the Assets.
        keys: keys of the documents, None for all documents.
        session: session of the database.
        time_series: keys of time series of which only the last point is needed. The database cuts the other points, if they are many:
            the time series of a thousand jobs have 40 MB.
    """
    found: dict[int, dict[str, Any]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    query = select(model.asset_id, model.key, _cut(time_series)).where(model.asset_id.in_(found))
    for asset_id, key, value in session.execute(query if keys is None else query.where(model.key.in_([*keys]))):
        try:
            found[asset_id][key] = json.loads(_CUT.sub(r"\1\2", value), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            log.warning("The document %r of Asset %s is ignored because it is not valid JSON", key, asset_id)
    return found


def _cut(time_series: Collection[str]) -> SQLColumnExpression[str]:
    """Select the values of documents, without the middle of long time series."""
    value = AssetStateStoreModel.value
    size = func.char_length(value)
    begin, end = (func.substr(value, *part, type_=Text) for part in ((1, CUT_CHARACTERS), (size - CUT_CHARACTERS + 1,)))
    is_long = and_(AssetStateStoreModel.key.in_([*time_series]), size > 2 * CUT_CHARACTERS)
    return case((is_long, begin + CUT + end), else_=value) if time_series else value


def revisions(asset_ids: Iterable[int], session: Session) -> dict[int, dict[str, datetime]]:
    """Asset -> key -> time of the last write."""
    found: dict[int, dict[str, datetime]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    for row in session.execute(select(model.asset_id, model.key, model.updated_at).where(model.asset_id.in_(found))):
        found[row.asset_id][row.key] = row.updated_at
    return found
