"""Every internal of Airflow that this package uses, and every name that has moved between the supported versions of Airflow.

Other modules import such a name from here, and the public names of `airflow.sdk`, `airflow.sdk.exceptions`, `airflow.triggers.base`,
`airflow.timetables.base`, `airflow.plugins_manager` and the providers from Airflow (`tests/unit/_airflow/test_internals.py` checks it). A name is
looked up when it is imported, so a process loads no part of Airflow that it does not need. If Airflow has the name nowhere, the import fails with
one message, and disables only the feature of the module that imports it: the page, the command line, or a trigger.
"""

# ruff: noqa: F401  Other modules import the names from here.

from __future__ import annotations

import ast
import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from asgiref.sync import SyncToAsync

from airflow_adaptive import __version__

if TYPE_CHECKING:  # the names, where the newest version has them; `INTERNALS` reads this block
    from airflow._shared.state import AssetStateStoreWriterKind
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.common.dagbag import resolve_run_on_latest_version
    from airflow.api_fastapi.common.db.common import SessionDep
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.cli.cli_config import (
        ARG_OUTPUT,
        ARG_VERBOSE,
        ARG_YES,
        ActionCommand,
        Arg,
        CLICommand,
        GroupCommand,
        lazy_load_command,
        positive_int,
    )
    from airflow.cli.simple_table import AirflowConsole
    from airflow.exceptions import AirflowTimetableInvalid
    from airflow.models.asset import (
        AssetActive,
        AssetModel,
        DagScheduleAssetNameReference,
        DagScheduleAssetReference,
        DagScheduleAssetUriReference,
        TaskInletAssetReference,
        TaskOutletAssetReference,
    )
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.models.callback import TriggererCallback
    from airflow.models.crypto import get_fernet
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.models.variable import Variable as VariableModel
    from airflow.models.xcom import XComModel
    from airflow.sdk._shared.observability.metrics import stats as stats_of_task_sdk
    from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, _TaskDecorator
    from airflow.sdk.bases.xcom import BaseXCom
    from airflow.sdk.configuration import conf
    from airflow.sdk.definitions._internal.expandinput import ExpandInput
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS
    from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSecretsBackendAccessDenied,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
    )
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DeleteVariable, ErrorResponse, GetVariable, PutVariable
    from airflow.sdk.execution_time.context import AssetStateStoreAccessor
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.sdk.execution_time.xcom import XCom
    from airflow.sdk.log import amask_secret, mask_secret
    from airflow.sdk.observability.metrics import stats_utils
    from airflow.sdk.observability.stats import Stats
    from airflow.state import AssetScope
    from airflow.state.metastore import MetastoreBackend
    from airflow.utils.cli import action_cli, suppress_logs_and_warning
    from airflow.utils.platform import getuser
    from airflow.utils.providers_configuration_loader import providers_configuration_loaded
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, State

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath
    from sqlalchemy.orm import Session

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Internal:
    """A name of Airflow.

    Attributes:
        places: module and name, `module:name`, newest first; the first one that exists is used.
        use: feature that needs the name, as a subject of a message.
        since: first version of Airflow that has the name.
        instead: what the feature uses in earlier versions.
    """

    places: tuple[str, ...]
    use: str
    since: str = "3.1"
    instead: str = "nothing"


@dataclass(frozen=True, slots=True)
class _Use:
    """The feature that needs the names of a module, and the module that had them before. See `Internal`."""

    use: str
    earlier: str = ""
    since: str = "3.1"
    instead: str = "nothing"


_DECORATOR: Final = _Use("the decorator `@task.adaptive_spark`")
_PAGE: Final = _Use("the REST API and the page")
_CLI: Final = _Use("the command line")
_VARIABLES: Final = _Use("Variables and XComs of tasks")
_STORE: Final = _Use("the documents of jobs in the state store of Assets", since="3.3", instead=_VARIABLES.use)
_METRICS: Final = _Use(
    "the configuration of Airflow's metrics",
    since="3.2",
    instead="nothing, because Airflow 3.1 configures its metrics itself",
)

_USES: Final[dict[str, _Use]] = {
    "airflow.sdk.exceptions": _Use("tasks and their errors", "airflow.exceptions"),
    "airflow.sdk.configuration": _Use("options of airflow.cfg", "airflow.configuration"),
    "airflow.sdk.definitions.callback": _Use("callbacks", "airflow.sdk.definitions.deadline"),
    "airflow.sdk.execution_time.context": _STORE,
    "airflow.sdk.execution_time.xcom": _Use("XComs of other tasks"),
    "airflow.sdk.bases.xcom": _Use("XComs with documents, which no backend of XComs may move"),
    "airflow.sdk.execution_time.task_runner": _Use("the states of other tasks"),
    "airflow.sdk.execution_time": _VARIABLES,
    "airflow.sdk.log": _Use("masked secrets"),
    "airflow.sdk.observability.stats": _Use("Airflow's metrics", "airflow.stats"),
    "airflow.sdk._shared.observability": _METRICS,
    "airflow.sdk.observability": _METRICS,
    "airflow.sdk.definitions.mappedoperator": _Use("fleets"),
    "airflow.sdk": _DECORATOR,
    "airflow.exceptions": _Use("timetables of rescale policies"),
    "airflow.models.asset_state_store": _STORE,
    "airflow.models.callback": _Use("the cancellation of a job without a control loop", since="3.2"),
    "airflow.models.crypto": _VARIABLES,
    "airflow.models": _PAGE,
    "airflow.api_fastapi": _PAGE,
    "airflow.utils.session": _PAGE,
    "airflow.utils.state": _PAGE,
    "airflow.state": _STORE,
    "airflow._shared": _STORE,
    "airflow.cli": _CLI,
    "airflow.utils": _CLI,
}
"""Module or package of Airflow -> use of its names; the first entry that fits counts."""


def is_mapped_item(operator: object) -> bool:
    """Return whether Airflow constructs an operator as an item of a mapped task, when it runs the item (`MappedOperator.unmap`, since 3.0)."""
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def _internals() -> Iterator[tuple[str, Internal]]:
    """Yield the names of the first `TYPE_CHECKING` block, so that type checkers and the interpreter read one list."""
    blocks = (node for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    for node in next(blocks).body:
        assert isinstance(node, ast.ImportFrom), "the block contains imports only"
        module = str(node.module)
        use = next(use for prefix, use in _USES.items() if f"{module}.".startswith(f"{prefix}."))
        modules = (module, use.earlier) if use.earlier else (module,)
        for alias in node.names:
            places = tuple(f"{place}:{alias.name}" for place in modules)
            yield alias.asname or alias.name, Internal(places, use.use, use.since, use.instead)


INTERNALS: Final[dict[str, Internal]] = {
    **dict(_internals()),
    "AirflowSecretsBackendAccessDenied": Internal(
        ("airflow.sdk.exceptions:AirflowSecretsBackendAccessDenied", f"{__name__}:_NeverRaised"),
        "the message about a refused secrets backend",
        "3.2",
        "an exception that Airflow never raises",
    ),
    "amask_secret": Internal(
        ("airflow.sdk.log:amask_secret", f"{__name__}:_mask_secret_in_thread"),
        "masked secrets in triggers",
        "3.3",
        "`mask_secret` in a thread",
    ),
    "resolve_run_on_latest_version": Internal(
        ("airflow.api_fastapi.common.dagbag:resolve_run_on_latest_version", f"{__name__}:_run_on_same_version"),
        "the version of the DAG with which a job resumes",
        "3.3",
        "the version of the DAG run, as Airflow's own clear",
    ),
}
"""Name in this module -> the name in Airflow."""


class UnsupportedAirflowError(ImportError):
    """The installed Airflow is older than this package supports."""


def require_airflow() -> None:
    """Raise `UnsupportedAirflowError` if Airflow is too old. The packages that DAG files and Airflow import call this before they import Airflow."""
    if problem := unsupported_airflow():
        raise UnsupportedAirflowError(problem)


def unsupported_airflow() -> str:
    """Return why the installed Airflow is too old, and the remedy; "" if it is not."""
    if not () < _minor(installed_airflow()) < _minor(supported_range(), ">="):
        return ""
    limits = " or later, before ".join(
        re.findall(r"\d+\.\d+", supported_range())[::-1]
    )  # Airflow removes < and > from descriptions.
    return (
        f"airflow-adaptive {__version__} needs Airflow {limits}, and Airflow {installed_airflow()} is installed: upgrade Airflow, or "
        "uninstall airflow-adaptive"
    )


def untested_airflow() -> str:
    """Return that the installed Airflow is newer than the tests of this package, and the remedy; "" if it is not."""
    if not () < _minor(supported_range(), "<") <= _minor(installed_airflow()):
        return ""
    return (
        f"airflow-adaptive {__version__} is tested with {supported_range()} only, because it uses internals of Airflow, and Airflow "
        f"{installed_airflow()} is installed. A feature whose internals have changed is disabled with a message. Install a newer "
        "airflow-adaptive, or a tested version of Airflow"
    )


@cache
def supported_range() -> str:
    """Return the versions of Airflow in the metadata of this package."""
    try:
        found = [one for one in requires("airflow-adaptive") or [] if re.match(r"apache-airflow[<>=]", one)]
    except PackageNotFoundError:
        found = []
    return found[0] if found else "another version of Airflow"


@cache
def installed_airflow() -> str:
    """Return the version of Airflow, which was one package before Airflow 3."""
    for package in ("apache-airflow-core", "apache-airflow"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "of an unknown version"


def _minor(text: str, operator: str = "") -> tuple[int, ...]:
    """Return the first minor version after an operator in a text; () without one."""
    found = re.search(rf"{operator}(\d+)\.(\d+)", text)
    return () if found is None else tuple(map(int, found.groups()))


class _NeverRaised(Exception):
    """Takes the place of an exception that Airflow does not have."""


async def _mask_secret_in_thread(secret: str) -> None:
    await asyncio.to_thread(on_this_loop(partial(_find("mask_secret"), secret)))


def _run_on_same_version(*_: Any) -> bool:
    return False


def has(name: str) -> bool:
    """Return whether Airflow has a name of `INTERNALS`."""
    return _exists(INTERNALS[name])


@cache
def _exists(internal: Internal) -> bool:
    """Return whether one of the places exists. Python would look for a module that does not exist on each import again."""
    try:
        _first(internal)
    except ImportError:
        return False
    return True


def on_this_loop(work: Callable[[], Result]) -> Callable[[], Result]:
    """Return blocking work for a thread, whose calls of the Task SDK run on this event loop. All work that may call the Task SDK needs this.

    From 3.2 on, the Task SDK does this itself. In 3.1 it calls `async_to_sync`, which would start an event loop of its own in the thread, where the
    channel to the supervisor cannot be used: the triggerer ends, because it reads responses of other requests. The name of the loop is what
    `sync_to_async` leaves in its threads.
    """
    loop = asyncio.get_running_loop()

    def work_on_loop() -> Result:
        local = SyncToAsync.threadlocal
        local.main_event_loop, local.main_event_loop_pid = loop, os.getpid()
        return work()

    return work_on_loop


def teams_of_dags(dag_ids: list[str], session: Session) -> Mapping[str, str | None]:
    """DAG id -> team, for DAGs with a team. Airflow 3.1 has no teams of DAGs."""
    find = getattr(_find("DagModel"), "get_dag_id_to_team_name_mapping", None)
    found: Mapping[str, str | None] = {} if find is None else find(dag_ids, session=session)
    return found


def queue_callback(callback: TriggererCallback, session: Session) -> None:
    """Let a triggerer run a callback. In Airflow 3.2, `queue` takes no session."""
    callback.queue(**({"session": session} if "session" in signature(callback.queue).parameters else {}))
    session.add(callback)


def connection_of(path: ObjectStoragePath) -> str | None:
    """Return the id of the connection in the URI of a path, which Airflow 3.1 keeps among the options of the file system."""
    return path.conn_id if hasattr(path, "conn_id") else path.storage_options.get("conn_id")


def configure_stats(*, legacy_names: bool) -> None:
    """Configure Airflow's metrics client unless it is configured. A second configuration would create a second exporter."""
    if not has("stats_of_task_sdk"):
        return
    client, factory = _find("stats_of_task_sdk"), _find("stats_utils").get_stats_factory
    if hasattr(client, "initialize"):
        if getattr(client, "_factory", None) is None:
            client.initialize(factory=factory(), export_legacy_names=legacy_names)
    elif client.Stats.factory is None:  # Airflow 3.2 sends each metric under one name.
        client.Stats.initialize(factory=factory())


def _find(name: str) -> Any:
    """Return a name of `INTERNALS`. Raises `ImportError` if Airflow does not have it."""
    internal = INTERNALS[name]
    try:
        return _first(internal)
    except ImportError as error:
        raise ImportError(
            f"Airflow {installed_airflow()} has no {name}, which {internal.use} needs (Airflow has it since {internal.since}; without it, "
            f"the feature uses {internal.instead})"
        ) from error


def _first(internal: Internal) -> Any:
    """Return what the first place that exists contains. Raises `ImportError` if none exists."""
    for place in internal.places:
        module, _, attribute = place.partition(":")
        try:
            found = import_module(module)
            return getattr(found, attribute) if hasattr(found, attribute) else import_module(f"{module}.{attribute}")
        except ImportError:
            continue
    raise ImportError


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in INTERNALS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = _find(name)
        return found
