"""The documents of jobs before Airflow 3.3: in Variables, and in the XComs of the task instances (`_airflow.store.variables_and_xcoms`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cryptography.fernet import InvalidToken
from sqlalchemy import ColumnElement, Row, Select, or_, select
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import AssetModel, VariableModel, XComModel, get_fernet, variable_text
from airflow_adaptive._airflow.store.storable import storable
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._airflow.store.variables_and_xcoms import (
    DESCRIPTION,
    PREFIX,
    begin_of_keys,
    decode,
    encode,
    variable_key,
    xcom_key,
)
from airflow_adaptive._core.ports import SEPARATOR, StoreUnavailableError
from airflow_adaptive._core.view import TaskKey, is_published
from airflow_adaptive._engine.once_logger import OnceLogger

_WARNINGS: Final = OnceLogger(logging.getLogger(__name__), logging.ERROR)

Place = tuple[int, str]
"""Asset of a job, and the prefix of its keys."""

ANY: Final = f"{PREFIX}{SEPARATOR}"
"""Prefix of the keys of all Variables and XComs with documents."""

UNREADABLE: Final = "__airflow_adaptive_unreadable__"
"""Field of what takes the place of a document that cannot be read: the reason, for the page."""

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""Time of the write of a document that cannot be read."""

OTHER_FERNET_KEY: Final = (
    "The documents of jobs in Airflow's Variables are encrypted with a key that [core] fernet_key does not contain. The jobs continue. Append the "
    "earlier key after a comma, restart Airflow's components, and run `airflow rotate-fernet-key` before you remove the earlier key again."
)

NEWEST: Final = ("step", "columns", "newest")
"""Fields of a page of metrics without its other points, of which the database reads the rest only if it is needed."""


class Found(NamedTuple):
    """A document.

    Attributes:
        place: the job.
        key: key of the document, without the prefix of the job.
        document: content.
        at: time of the last write.
    """

    place: Place
    key: str
    document: Any
    at: datetime


def keys(
    assets: Select[int, str], prefix: str | None, names: Collection[str], session: Session
) -> Iterator[tuple[int, str, str]]:
    """Yield the Asset, its name and the full key of each Variable with one of these keys (arguments as `state_store.keys`)."""
    query = select(VariableModel.key)
    full_keys = (
        []
        if prefix is not None
        else [*session.scalars(query.where(VariableModel.key.startswith(ANY, autoescape=True)))]
    )
    if prefix is None and not full_keys:
        return
    named = {row.id: row.name for row in session.execute(assets)}
    ids = {begin_of_keys(name): asset_id for asset_id, name in named.items()}
    if prefix is not None:
        wanted = [f"{base}{prefix}{name}" for base in ids for name in names]
        full_keys = [*session.scalars(query.where(VariableModel.key.in_(wanted)))]
    for full_key in full_keys:
        base, _, name = full_key.rpartition(SEPARATOR)
        of_fleet, _, job = base.rpartition(SEPARATOR)
        for own, job_prefix in ((f"{base}{SEPARATOR}", ""), (f"{of_fleet}{SEPARATOR}", f"{job}{SEPARATOR}")):
            if name in names and own in ids:
                yield ids[own], named[ids[own]], f"{job_prefix}{name}"


def read(
    places: Collection[Place], keys: Iterable[str] | None, session: Session, time_series: Collection[str] = ()
) -> Iterator[Found]:
    """Yield documents of jobs. `UNREADABLE` takes the place of a document that cannot be read. Arguments as `state_store.read`."""
    selected = None if keys is None else {*keys}
    tasks: dict[Place, TaskKey] = {}
    for found in _variables(places, None if selected is None else {*selected, ATTEMPT}, session):
        if found.key == ATTEMPT and (task := _task(found)) is not None:
            tasks[found.place] = task
        if selected is None or found.key in selected:
            yield found
    prefixes = {prefix for _, prefix in tasks}
    cut = [xcom_key(f"{prefix}{key}") for prefix in prefixes for key in time_series]
    is_wanted = XComModel.key.startswith(ANY, autoescape=True)
    if selected is not None:
        published = [key for key in selected if is_published(key)]
        is_wanted = XComModel.key.in_([xcom_key(f"{prefix}{key}") for prefix in prefixes for key in published])
    for place, key, row in _xcoms(
        tasks, is_wanted & ~XComModel.key.in_(cut), [XComModel.value.label("value")], session
    ):
        yield Found(place, key, storable(row.value), row.timestamp)
    newest = [XComModel.value[name].label(name) for name in NEWEST]
    for place, key, row in _xcoms(tasks, XComModel.key.in_(cut), newest, session) if cut else ():
        yield Found(place, key, storable({name: getattr(row, name) for name in NEWEST}), row.timestamp)


def revisions(place: Place, session: Session) -> dict[str, datetime]:
    """Key -> time of the last write of each document of a job. Reads no published document."""
    found = {found.key: found for found in _variables([place], None, session)}
    task = _task(found[ATTEMPT]) if ATTEMPT in found else None
    published = (
        () if task is None else _xcoms({place: task}, XComModel.key.startswith(ANY, autoescape=True), [], session)
    )
    return {key: each.at for key, each in found.items()} | {key: row.timestamp for _, key, row in published}


def write(place: Place, key: str, document: Any, session: Session) -> None:
    """Store a document that is no published one."""
    full_key = variable_key(_names([place], session)[place[0]], f"{place[1]}{key}")
    found = session.scalar(select(VariableModel).where(VariableModel.key == full_key))
    if found is None:
        found = VariableModel(key=full_key, description=DESCRIPTION)  # type: ignore[no-untyped-call]
        session.add(found)
    found.set_val(encode(full_key, document))


def _task(attempt: Found) -> TaskKey | None:
    """Return the task instance that an attempt names."""
    return TaskKey.of_attempt(attempt.document) if isinstance(attempt.document, str) else None


def _names(places: Collection[Place], session: Session) -> dict[int, str]:
    rows = session.execute(select(AssetModel.id, AssetModel.name).where(AssetModel.id.in_({id_ for id_, _ in places})))
    return {row.id: row.name for row in rows}


def _variables(places: Collection[Place], keys: set[str] | None, session: Session) -> Iterator[Found]:
    """Yield the documents in Variables."""
    names, model = _names(places, session), VariableModel
    bases = {begin_of_keys(names[id_], prefix): (id_, prefix) for id_, prefix in places if id_ in names}
    if not bases:
        return
    if keys is None:
        where = or_(*(model.key.startswith(base, autoescape=True) for base in bases))
    else:
        where = model.key.in_([f"{base}{key}" for base in bases for key in keys if not is_published(key)])
    for full_key, text, is_encrypted in session.execute(
        select(model.key, variable_text, model.is_encrypted).where(where)
    ):
        base, separator, key = full_key.rpartition(SEPARATOR)
        if (place := bases.get(f"{base}{separator}")) is None:
            continue
        try:
            document, at = decode(full_key, _decrypted(text) if is_encrypted else text)
        except StoreUnavailableError as error:
            _WARNINGS.report(str(error))
            document, at = {UNREADABLE: str(error)}, NEVER
        yield Found(place, key, storable(document), at)


def _decrypted(text: str) -> str:
    """Return the text of an encrypted Variable. Raises `StoreUnavailableError` if Airflow's Fernet keys cannot decrypt it."""
    fernet = get_fernet()
    try:
        if fernet.is_encrypted:  # Without a key, Airflow returns the encrypted text.
            return str(fernet.decrypt(text.encode()).decode())
    except InvalidToken:
        pass
    raise StoreUnavailableError(OTHER_FERNET_KEY)


def _xcoms(
    tasks: Mapping[Place, TaskKey], where: ColumnElement[bool], columns: Sequence[ColumnElement[Any]], session: Session
) -> Iterator[tuple[Place, str, Row[Any]]]:
    """Yield the job, the key and the row of each XCom with a document; `columns` are those beside the time of the write."""
    model, places = XComModel, {(task, place[1]): place for place, task in tasks.items()}
    of_tasks = (
        getattr(model, name).in_({getattr(task, name) for task in tasks.values()})
        for name in ("dag_id", "task_id", "run_id")
    )
    task = (model.dag_id, model.task_id, model.run_id, model.map_index)
    for row in session.execute(select(*task, model.key, model.timestamp, *columns).where(where, *of_tasks)):
        prefix, separator, key = row.key.removeprefix(ANY).rpartition(SEPARATOR)
        owner = TaskKey(dag_id=row.dag_id, task_id=row.task_id, run_id=row.run_id, map_index=row.map_index)
        place = places.get((owner, f"{prefix}{separator}"))
        if place is not None:
            yield place, key, row
