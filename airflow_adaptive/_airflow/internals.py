"""Every internal of Airflow that this package uses, and every name that has moved between the supported versions of Airflow.

Other modules import such a name from here, and the public names of `airflow.sdk`, `airflow.sdk.exceptions`, `airflow.triggers.base`,
`airflow.timetables.base`, `airflow.plugins_manager` and the providers from Airflow (`tests/unit/_airflow/test_internals.py` checks it). A name is
looked up when it is imported, so a process loads no part of Airflow that it does not need. If Airflow has the name nowhere, the import fails with
one message, and disables only the feature of the module that imports it: the page, the command line, or a trigger.
"""

# ruff: noqa: F401  Other modules import the names from here.

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from asgiref.sync import SyncToAsync

from airflow_adaptive import __version__

if TYPE_CHECKING:  # the names of `INTERNALS`, where the newest version has them
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
    from airflow.jobs.job import Job as JobModel
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
    from airflow.models.dagcode import DagCode
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.models.variable import Variable as VariableModel

    variable_text = VariableModel._val
    from airflow.models.xcom import XComModel
    from airflow.sdk._shared.observability.metrics import stats as stats_of_task_sdk
    from airflow.sdk._shared.secrets_masker import redact
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
    from airflow.sdk.execution_time.comms import CommsDecoder, DeleteVariable, ErrorResponse, GetVariable, PutVariable
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


def _same(use: str, module: str, *names: str, since: str = "3.1", instead: str = "nothing") -> dict[str, Internal]:
    """Return names of one module that serve the same use."""
    return {name: Internal((f"{module}:{name}",), use, since, instead) for name in names}


def _moved(use: str, newest: str, earlier: str, *names: str) -> dict[str, Internal]:
    """Return names that one module had before the newest module."""
    return {name: Internal((f"{newest}:{name}", f"{earlier}:{name}"), use) for name in names}


_TASKS: Final = "tasks and their errors"
_DECORATOR: Final = "the decorator `@task.adaptive_spark`"
_PAGE: Final = "the REST API and the page"
_CLI: Final = "the command line"
_STORE: Final = "the documents of jobs in the state store of Assets"
_VARIABLES: Final = "Variables and XComs of tasks"
_CHANNELS: Final = "calls of the Task SDK in threads of a task"
_METRICS: Final = "the configuration of Airflow's metrics"
_OWN_METRICS: Final = "nothing, because Airflow 3.1 configures its metrics itself"

INTERNALS: Final[dict[str, Internal]] = {
    # Tasks and triggers
    **_moved(
        _TASKS,
        "airflow.sdk.exceptions",
        "airflow.exceptions",
        *("AirflowException", "AirflowFailException", "AirflowNotFoundException"),
        *("AirflowSensorTimeout", "AirflowSkipException", "AirflowTaskTimeout"),
    ),
    "AirflowSecretsBackendAccessDenied": Internal(
        ("airflow.sdk.exceptions:AirflowSecretsBackendAccessDenied", f"{__name__}:_NeverRaised"),
        "the message about a refused secrets backend",
        "3.2",
        "an exception that Airflow never raises",
    ),
    **_moved("options of airflow.cfg", "airflow.sdk.configuration", "airflow.configuration", "conf"),
    **_moved("callbacks", "airflow.sdk.definitions.callback", "airflow.sdk.definitions.deadline", "AsyncCallback"),
    **_same(_STORE, "airflow.sdk.execution_time.context", "AssetStateStoreAccessor", since="3.3", instead=_VARIABLES),
    **_same("XComs of other tasks", "airflow.sdk.execution_time.xcom", "XCom"),
    **_same("XComs with documents, which no backend of XComs may move", "airflow.sdk.bases.xcom", "BaseXCom"),
    **_same(
        "XComs that a loop reads and sets when its task has ended or was cleared",
        "airflow.sdk.bases.xcom",
        "_current_trigger_ti",
        since="3.4",
        instead="nothing, because Airflow before 3.4 accepts them",
    ),
    **_same(_VARIABLES, "airflow.sdk.execution_time", "task_runner"),
    **_same(
        _VARIABLES, "airflow.sdk.execution_time.comms", "DeleteVariable", "ErrorResponse", "GetVariable", "PutVariable"
    ),
    **_same(_CHANNELS, "airflow.sdk.execution_time.comms", "CommsDecoder"),
    **_same(_CHANNELS, "airflow.sdk.execution_time.supervisor", "InProcessSupervisorComms"),
    **_same("the states of other tasks", "airflow.sdk.execution_time.task_runner", "RuntimeTaskInstance"),
    **_same("masked secrets", "airflow.sdk.log", "mask_secret"),
    **_same("masked secrets", "airflow.sdk._shared.secrets_masker", "redact"),
    "amask_secret": Internal(
        ("airflow.sdk.log:amask_secret", f"{__name__}:_mask_secret_in_thread"),
        "masked secrets in triggers",
        "3.3",
        "`mask_secret` in a thread",
    ),
    "Stats": Internal(("airflow.sdk.observability.stats:Stats", "airflow.stats:Stats"), "Airflow's metrics"),
    "stats_of_task_sdk": Internal(("airflow.sdk._shared.observability.metrics:stats",), _METRICS, "3.2", _OWN_METRICS),
    **_same(_METRICS, "airflow.sdk.observability.metrics", "stats_utils", since="3.2", instead=_OWN_METRICS),
    # DAG files
    **_same(_DECORATOR, "airflow.sdk.bases.decorator", "DecoratedOperator", "TaskDecorator", "_TaskDecorator"),
    **_same(_DECORATOR, "airflow.sdk.definitions._internal.expandinput", "ExpandInput"),
    **_same(_DECORATOR, "airflow.sdk.definitions.context", "KNOWN_CONTEXT_KEYS"),
    **_same("fleets", "airflow.sdk.definitions.mappedoperator", "MappedOperator", "OperatorPartial"),
    "expand_called": Internal(("airflow.sdk.definitions.mappedoperator:OperatorPartial._expand_called",), "fleets"),
    "from_mapped": Internal(("airflow.sdk:BaseOperator._BaseOperator__from_mapped",), "fleets"),
    **_same("timetables of rescale policies", "airflow.exceptions", "AirflowTimetableInvalid"),
    # The API server
    **_same(_PAGE, "airflow.api_fastapi.app", "get_auth_manager"),
    **_same(_PAGE, "airflow.api_fastapi.auth.managers.base_auth_manager", "ResourceMethod"),
    **_same(_PAGE, "airflow.api_fastapi.auth.managers.models.base_user", "BaseUser"),
    **_same(_PAGE, "airflow.api_fastapi.auth.managers.models.batch_apis", "IsAuthorizedDagRequest"),
    **_same(_PAGE, "airflow.api_fastapi.auth.managers.models.resource_details", *("DagAccessEntity", "DagDetails")),
    **_same(_PAGE, "airflow.api_fastapi.common.db.common", "SessionDep"),
    **_same(_PAGE, "airflow.api_fastapi.core_api.security", "get_user"),
    "resolve_run_on_latest_version": Internal(
        ("airflow.api_fastapi.common.dagbag:resolve_run_on_latest_version", f"{__name__}:_run_on_same_version"),
        "the version of the DAG with which a job resumes",
        "3.3",
        "the version of the DAG run, as Airflow's own clear",
    ),
    **_same(
        _PAGE,
        "airflow.models.asset",
        *("AssetActive", "AssetModel", "DagScheduleAssetNameReference", "DagScheduleAssetReference"),
        *("DagScheduleAssetUriReference", "TaskInletAssetReference", "TaskOutletAssetReference"),
    ),
    **_same(_STORE, "airflow.models.asset_state_store", "AssetStateStoreModel", since="3.3", instead=_VARIABLES),
    **_same(_STORE, "airflow._shared.state", "AssetStateStoreWriterKind", since="3.3", instead=_VARIABLES),
    **_same(_STORE, "airflow.state", "AssetScope", since="3.3", instead=_VARIABLES),
    **_same(_STORE, "airflow.state.metastore", "MetastoreBackend", since="3.3", instead=_VARIABLES),
    **_same(
        "the cancellation of a job without a control loop", "airflow.models.callback", "TriggererCallback", since="3.2"
    ),
    **_same(_PAGE, "airflow.models.dag", "DagModel"),
    **_same(_PAGE, "airflow.models.dagcode", "DagCode"),
    **_same(_PAGE, "airflow.models.dagrun", "DagRun"),
    **_same(_PAGE, "airflow.models.log", "Log"),
    **_same(_PAGE, "airflow.models.serialized_dag", "SerializedDagModel"),
    **_same(_PAGE, "airflow.models.taskinstance", "TaskInstance", "clear_task_instances"),
    **_same(_VARIABLES, "airflow.models.crypto", "get_fernet"),
    "JobModel": Internal(("airflow.jobs.job:Job",), _CLI),
    "VariableModel": Internal(("airflow.models.variable:Variable",), _PAGE),
    "variable_text": Internal(("airflow.models.variable:Variable._val",), _VARIABLES),
    **_same(_PAGE, "airflow.models.xcom", "XComModel"),
    **_same(_PAGE, "airflow.utils.session", "create_session"),
    **_same(_PAGE, "airflow.utils.state", "DagRunState", "State"),
    # The command line
    **_same(
        _CLI,
        "airflow.cli.cli_config",
        *("ARG_OUTPUT", "ARG_VERBOSE", "ARG_YES", "ActionCommand", "Arg", "CLICommand", "GroupCommand"),
        *("lazy_load_command", "positive_int"),
    ),
    **_same(_CLI, "airflow.cli.simple_table", "AirflowConsole"),
    **_same(_CLI, "airflow.utils.cli", "action_cli", "suppress_logs_and_warning"),
    **_same(_CLI, "airflow.utils.platform", "getuser"),
    **_same(_CLI, "airflow.utils.providers_configuration_loader", "providers_configuration_loaded"),
}
"""Name in this module -> the name in Airflow. A function below uses what has no name: `SUPERVISOR_COMMS`, and the layout of a serialized DAG."""


def is_mapped_item(operator: object) -> bool:
    """Return whether Airflow constructs an operator as an item of a mapped task, when it runs the item (`MappedOperator.unmap`, since 3.0)."""
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def mark_expanded(partial_task: OperatorPartial) -> None:
    """Let Airflow not warn that a partial task is never expanded: another one is expanded in its place, or an error is the only report."""
    partial_task._expand_called = True


def serialized_task(data: Any, task_id: str) -> Mapping[str, Any] | None:
    """Return the serialized fields of a task, None for a task that the DAG does not have or that another version of Airflow has serialized.

    Args:
        data: `SerializedDagModel.data`. A field `_is_mapped` marks a mapped task.
        task_id: id of the task.
    """
    try:
        tasks = [task["__var"] for task in data["dag"]["tasks"]]
        return next((it for it in tasks if it["task_id"] == task_id), None)
    except (LookupError, TypeError):
        return None


class UnsupportedAirflowError(ImportError):
    """The installed Airflow is older than this package supports."""


def require_airflow() -> None:
    """Raise `UnsupportedAirflowError` if Airflow is too old. The packages that DAG files and Airflow import call this before they import Airflow."""
    if problem := unsupported_airflow():
        raise UnsupportedAirflowError(f"{problem} [unsupported-airflow]")


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
    """Return whether Airflow has a name of `INTERNALS`. What this module has in its place does not count."""
    return _exists(tuple(place for place in INTERNALS[name].places if not place.startswith(__name__)))


@cache
def _exists(places: tuple[str, ...]) -> bool:
    """Return whether one of the places exists. Python would look for a module that does not exist on each import again."""
    try:
        _first(places)
    except ImportError:
        return False
    return True


def on_this_loop(work: Callable[[], Result]) -> Callable[[], Result]:
    """Return blocking work for a thread, whose calls of the Task SDK run on this event loop. All work that may call the Task SDK needs this.

    From 3.4 on, a trigger sends its task instance with each call. Airflow then refuses XComs, also those of other tasks, when the task has ended, was
    cleared, or waits between two triggers, and a loop outlives this. So the calls of the work come from the process, not from the trigger that began it.

    From 3.2 on, the Task SDK does this itself. In 3.1 it calls `async_to_sync`, which would start an event loop of its own in the thread, where the
    channel to the supervisor cannot be used: the triggerer ends, because it reads responses of other requests. The name of the loop is what
    `sync_to_async` leaves in its threads.

    A task has no such loop, and its threads share the channel, see `_lock_channel` and `_is_in_process`.
    """
    loop = asyncio.get_running_loop()
    _lock_channel()

    def work_on_loop() -> Result:
        local = SyncToAsync.threadlocal
        local.main_event_loop, local.main_event_loop_pid = loop, os.getpid()
        run = partial(copy_context().run, _without_task, work) if has("_current_trigger_ti") else work
        with _IN_PROCESS:
            if _is_in_process():
                return run()
        return run()

    return work_on_loop


def supervisor() -> Any:
    """Return the channel to the supervisor of this process, whose `send` returns the answer to a message."""
    return _find("task_runner").SUPERVISOR_COMMS


_CHANNEL: Final = RLock()
"""Held by the thread that waits for an answer of the supervisor of a task, in Airflow 3.1. A signal handler may send within a call."""

_IN_PROCESS: Final = RLock()
"""Held by the thread whose work calls the supervisor in its own process."""


@cache
def _lock_channel() -> None:
    """Let only one thread of a task wait for the supervisor, as Airflow does from 3.2 on. Airflow 3.1 gives an answer to the thread that reads first."""
    decoder = _first(INTERNALS["CommsDecoder"].places)
    if hasattr(decoder, "_thread_lock"):
        return
    send = decoder.send

    def send_alone(channel: Any, message: Any) -> Any:
        with _CHANNEL:
            return send(channel, message)

    decoder.send = send_alone


def _is_in_process() -> bool:
    """Return whether the supervisor is in this process, as for `airflow dags test`.

    Such a supervisor removes `SUPERVISOR_COMMS` during each call, and returns the oldest answer (3.1 to 3.4). Calls that overlap find no supervisor,
    swap their answers, or remove it for good.
    """
    module, _, name = INTERNALS["InProcessSupervisorComms"].places[0].partition(":")
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(
        getattr(_first(INTERNALS["task_runner"].places), "SUPERVISOR_COMMS", None), kind
    )


def _without_task(work: Callable[[], Result]) -> Result:
    _first(INTERNALS["_current_trigger_ti"].places).set(None)
    return work()


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


def act_as_server() -> None:
    """Let this process, a command, read connections from the metadata database, as Airflow's own commands do."""
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")


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
        return _first(internal.places)
    except ImportError as error:
        raise ImportError(
            f"Airflow {installed_airflow()} has no {name}, which {internal.use} needs (Airflow has it since {internal.since}; without it, "
            f"the feature uses {internal.instead}) [unsupported-airflow]"
        ) from error


def _first(places: tuple[str, ...]) -> Any:
    """Return what the first place that exists contains. Raises `ImportError` if none exists."""
    for place in places:
        module, _, attribute = place.partition(":")
        try:
            found = import_module(module)
            *owner, name = attribute.split(".")
            for one in owner:
                found = getattr(found, one)
            return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")
        except ImportError:
            continue
    raise ImportError


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in INTERNALS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = _find(name)
        return found
