"""The page in a real browser, served by Airflow's own app over the jobs of `stories`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_adaptive._web.api.ui_files import DIST
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.browser_fixture import TIMEOUT_MS


@pytest.fixture(scope="session")
def address(shared_airflow_app: AirflowApp) -> Iterator[str]:
    """Where the app is served."""
    import uvicorn  # noqa: PLC0415

    if not (DIST / "index.html").is_file():
        pytest.fail("the page was not built: run make ui")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(shared_airflow_app.app, log_level="warning", ws="none", lifespan="off"))
        server.config.timeout_graceful_shutdown = 1  # pages that listen to a job do not leave by themselves
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)


class Visitor:
    """A user who opens the page in a browser."""

    def __init__(self, airflow_app: AirflowApp, browser: Any, address: str) -> None:
        self._airflow_app = airflow_app
        self._browser = browser
        self._address = address
        self._contexts: list[Any] = []
        self.errors: list[str] = []
        """Errors that the browser reported."""

    def open(self, path: str = "", user: str | None = "editor", theme: str = "light", **options: Any) -> Any:
        """The page at a path below its own, or below Airflow's if it begins with a slash."""
        context = self._browser.new_context(reduced_motion="reduce", **options)
        self._contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        if user is not None:
            context.add_cookies([{"name": "_token", "value": self._airflow_app.token(user), "url": self._address}])
        context.add_init_script(f"localStorage.theme ??= {theme!r}")
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._listen)
        page.goto(self._address + (path if path.startswith("/") else f"/adaptive/ui/{path}"))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _listen(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)


@pytest.fixture
def visitor(airflow_app: AirflowApp, browser: Any, address: str) -> Iterator[Visitor]:
    """A visitor. The test fails if the browser reports an error, including violations of the content security policy."""
    new_visitor = Visitor(airflow_app, browser, address)
    yield new_visitor
    new_visitor.close()
    assert new_visitor.errors == []
