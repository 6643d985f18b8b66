"""The only module that imports internals of Airflow, and names that have moved between its versions."""

from __future__ import annotations

import ast
import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder, GetVariable, VariableResult, _ResponseFrame
from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms
from asgiref.sync import async_to_sync

import airflow_adaptive
from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.internals import INTERNALS, Internal, queue_callback
from airflow_adaptive.plugin import AdaptivePlugin
from airflow_adaptive.provider_info import get_provider_info

PACKAGE = Path(airflow_adaptive.__file__).parent

PUBLIC = (
    "airflow.sdk",
    "airflow.sdk.exceptions",
    "airflow.triggers.base",
    "airflow.timetables.base",
    "airflow.plugins_manager",
)
"""Modules of Airflow that other modules import."""


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of Airflow that runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in of_types and f"{node.module}.".startswith("airflow."):
            yield from ((str(node.module), name.name) for name in node.names)


def test_other_modules_import_only_public_names_of_airflow_that_have_not_moved() -> None:
    moved = {place for internal in INTERNALS.values() for place in internal.places}
    found = {
        f"{path.relative_to(PACKAGE)}: {module}:{name}"
        for path in PACKAGE.rglob("*.py")
        for module, name in imports(path)
        if not module.startswith("airflow.providers.") and (module not in PUBLIC or f"{module}:{name}" in moved)
    }
    assert not found


def test_every_name_is_in_this_version_of_airflow() -> None:
    release = ".".join(version("apache-airflow-core").split(".")[:2])
    names = [name for name, internal in INTERNALS.items() if internal.since <= release]
    assert [name for name in names if not airflow_internals.has(name)] == []


def test_secret_that_a_thread_masks_is_sent_on_the_event_loop_of_the_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.1 reads the responses of other requests if a thread sends on an event loop of its own, and the triggerer ends."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def send() -> None:
        loops.append(asyncio.get_running_loop())

    async def mask() -> None:
        await airflow_internals._mask_secret_in_thread("secret")
        assert loops == [asyncio.get_running_loop()]

    monkeypatch.setattr(airflow_internals, "_find", lambda _: lambda _: async_to_sync(send)())
    asyncio.run(mask())


TASK: ContextVar[str | None] = ContextVar("TASK", default=None)


def test_calls_in_a_thread_are_not_refused_with_the_task_of_their_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INTERNALS, "_current_trigger_ti", Internal((f"{__name__}:TASK",), "XComs"))

    async def task_of_call() -> tuple[str | None, str | None]:
        TASK.set("the task of the trigger")
        return await asyncio.to_thread(airflow_internals.on_this_loop(TASK.get)), TASK.get()

    assert asyncio.run(task_of_call()) == (None, "the task of the trigger")


def answers(channel: Any, names: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of the answers to messages of as many threads at once."""
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", channel, raising=False)

    def ask(name: str) -> str:
        return str(airflow_internals.supervisor().send(GetVariable(key=name)).key)

    async def ask_all() -> list[str]:
        works = [airflow_internals.on_this_loop(partial(ask, name)) for name in names]
        with ThreadPoolExecutor(len(names)) as threads:
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*(loop.run_in_executor(threads, work) for work in works))

    found = asyncio.run(ask_all())
    assert task_runner.SUPERVISOR_COMMS is channel
    return found


def test_threads_of_a_task_get_their_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor answers a message late; Airflow 3.1 has no lock."""
    own, other = socket.socketpair()
    names, late = [f"v{number}" for number in range(40)], threading.Event()

    def serve() -> None:
        with other.makefile("rb") as messages:
            for _ in names:
                number, body, *_ = msgspec.msgpack.decode(messages.read(int.from_bytes(messages.read(4), "big")))
                late.wait(0.002)
                result = VariableResult(key=body["key"], value="x").model_dump()
                other.sendall(_ResponseFrame(id=number, body=result).as_bytes())

    with own, other:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        assert answers(CommsDecoder(socket=own), names, monkeypatch) == names
        server.join(60)


def test_threads_get_their_own_answers_of_a_supervisor_in_the_same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`airflow dags test`: the supervisor is removed while it answers."""
    names, late = [f"v{number}" for number in range(40)], threading.Event()

    class Supervisor:
        def _handle_request(self, message: Any, *_: Any) -> None:
            assert not hasattr(task_runner, "SUPERVISOR_COMMS")
            late.wait(0.002)
            channel.messages.append(VariableResult(key=message.key, value="x"))

    channel = InProcessSupervisorComms(supervisor=cast(Any, Supervisor()))
    assert answers(channel, names, monkeypatch) == names


def test_missing_name_is_reported_with_its_use_and_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Internal(("airflow.nowhere:Thing", "airflow.sdk:Thing"), "the page", "3.9", "nothing")
    monkeypatch.setitem(INTERNALS, "Thing", missing)
    with pytest.raises(
        ImportError, match=r"Airflow 3\.\S+ has no Thing, which the page needs \(Airflow has it since 3\.9; without it"
    ):
        from airflow_adaptive._airflow.internals import Thing  # type: ignore[attr-defined]  # noqa: F401, PLC0415


def test_name_that_has_moved_is_found_in_its_earlier_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INTERNALS, "Moved", Internal(("airflow.nowhere:DAG", "airflow.sdk:DAG"), "the page"))
    assert airflow_internals.has("Moved")


def test_substitute_of_a_missing_name_is_found_and_is_not_taken_for_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute = f"{airflow_internals.__name__}:UnsupportedAirflowError"
    monkeypatch.setitem(INTERNALS, "Missing", Internal(("airflow.nowhere:Missing", substitute), "the page"))
    assert not airflow_internals.has("Missing")
    from airflow_adaptive._airflow.internals import Missing  # type: ignore[attr-defined]  # noqa: PLC0415

    assert Missing is airflow_internals.UnsupportedAirflowError


# ---- versions of Airflow --------------------------------------------------------------------------------------------


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setattr(airflow_internals, "supported_range", lambda: "apache-airflow<3.4,>=3.1")
    return lambda version: monkeypatch.setattr(airflow_internals, "installed_airflow", lambda: version)


@pytest.mark.parametrize(
    ("requirements", "found"),
    [
        (["httpx>=0.28", "apache-airflow-providers-x>=6.3", "apache-airflow<3.4,>=3.3"], "apache-airflow<3.4,>=3.3"),
        ([], "another version of Airflow"),
        (None, "another version of Airflow"),
    ],
)
def test_range_of_versions_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, requirements: list[str] | None, found: str
) -> None:
    monkeypatch.setattr(airflow_internals, "requires", lambda _: requirements)
    assert airflow_internals.supported_range.__wrapped__() == found


@pytest.mark.parametrize("version", ["3.1.0", "3.2.2", "3.3.0rc1", "3.3.99", "of an unknown version"])
def test_supported_version_is_accepted(
    install: Callable[[str], None], caplog: pytest.LogCaptureFixture, version: str
) -> None:
    install(version)
    airflow_internals.require_airflow()
    AdaptivePlugin.on_load()
    assert not caplog.records


@pytest.mark.parametrize("version", ["2.11.0", "3.0.6"])
def test_older_version_is_refused_once_with_the_remedy(
    install: Callable[[str], None], caplog: pytest.LogCaptureFixture, version: str
) -> None:
    install(version)
    message = (
        f"needs Airflow 3.1 or later, before 3.4, and Airflow {version} is installed: upgrade Airflow, or uninstall"
    )
    with pytest.raises(ImportError, match=message):
        airflow_internals.require_airflow()
    assert message in get_provider_info()["description"]
    assert set(get_provider_info()) == {"package-name", "name", "description"}
    assert AdaptivePlugin().timetables == []
    assert [app["app"].routes[0].path for app in AdaptivePlugin().fastapi_apps] == ["/{path:path}"]
    AdaptivePlugin.on_load()
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.ERROR, None)
    assert message in record.getMessage()


@pytest.mark.parametrize("version", ["3.4.0", "3.4.0.dev0", "4.0.0"])
def test_newer_version_is_accepted_with_a_warning(
    install: Callable[[str], None], caplog: pytest.LogCaptureFixture, version: str
) -> None:
    install(version)
    airflow_internals.require_airflow()
    AdaptivePlugin.on_load()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"Airflow {version} is installed" in record.getMessage()
    assert "uses internals of Airflow" in record.getMessage()


def test_packages_that_users_import_refuse_an_old_airflow_before_they_import_it() -> None:
    public = ("decorators", "hooks", "links", "operators", "sensors", "timetables", "triggers")
    assert all("\nrequire_airflow()" in (PACKAGE / name / "__init__.py").read_text(encoding="utf-8") for name in public)


@pytest.mark.parametrize("parameters", [{"session"}, set()])
def test_callback_is_queued_with_or_without_a_session(parameters: set[str]) -> None:
    """Airflow 3.2 and 3.3."""
    queued: list[dict[str, Any]] = []

    def with_session(*, session: Any) -> None:
        queued.append({"session": session})

    def without_session() -> None:
        queued.append({})

    callback: Any = SimpleNamespace(queue=with_session if parameters else without_session)
    added: list[Any] = []
    queue_callback(callback, cast(Any, SimpleNamespace(add=added.append)))
    assert ([set(arguments) for arguments in queued], added) == ([parameters], [callback])
