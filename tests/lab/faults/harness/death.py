"""Points at which a process that runs a loop kills itself, or another, with -9: at a document, around a request, inside a
compaction.

A point is `kind:when:what`:

    create:before|after:<document>      around the creation of the first such document of the process
    link:before|after:<document>        inside of it, around the one step in which it gets its name
    http:before|sent|answered:<call>    around a request to the master: not sent, sent, answered and not read
    compact:during:<n>                  when the log's n-th document was removed

A document is named by what it is ("claim", "again": the first of a next life), by its command ("SubmitDriver") or by the
state that it enters ("Executing"), or "submitted" if it is the first that knows the driver's name.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from airflow_adaptive._core.protocol.documents import JournalDocument
from airflow_adaptive._engine.journal import storage
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory

CALLS = {"submit": "/create", "kill": "/kill/"}
"""Calls to the master, by a part of their path."""

SENT = "http11.send_request_body.complete"
"""httpcore's word for a request that has left."""


class Death:
    """One point at which a process dies; "" for none."""

    def __init__(self, point: str, victim: tuple[int, int] | None = None) -> None:
        """Take note.

        Args:
            point: see above.
            victim: a process and the signal that it gets once; by default this one dies.
        """
        self._kind, self._when, self._what = point.split(":") if point else ("", "", "")
        self._victim = victim
        self._struck = False
        self._documents = 0
        self._submission: str | None = None
        self._creating: JournalDocument | None = None

    def around(self, directory: FsspecJobDirectory) -> Any:
        """The directory, deadly at the point."""
        create, remove = directory.create, directory.storage.remove
        removed = 0

        async def dying_create(document: JournalDocument) -> bool:
            fatal = self._is_meant(document)
            self._creating = document if fatal else None
            self._die_if(fatal, "create", "before")
            created = await create(document)
            self._die_if(fatal, "create", "after")
            return created

        def dying_remove(path: str) -> None:
            nonlocal removed
            remove(path)
            removed += 1
            self._die_if(removed == int(self._what), "compact", "during")

        directory.create = dying_create  # type: ignore[method-assign]
        if self._kind == "compact":
            directory.storage.remove = dying_remove  # type: ignore[method-assign]
        if self._kind == "link":
            storage.create_locally.__kwdefaults__ = {"folders": None, "link": self._dying_link}
        return directory

    def transport(self) -> httpx.AsyncBaseTransport:
        """A transport to the master, deadly at the point."""
        if self._kind != "http":
            return httpx.AsyncHTTPTransport()
        return DyingTransport(self._when, CALLS[self._what], self._strike)

    def _dying_link(self, source: Path, target: Path) -> None:
        self._die_if(self._creating is not None, "link", "before")
        os.link(source, target)
        self._die_if(self._creating is not None, "link", "after")

    def _die_if(self, fatal: bool, kind: str, when: str) -> None:
        if fatal and (self._kind, self._when) == (kind, when):
            self._strike()

    def _strike(self) -> None:
        process, how = self._victim or (os.getpid(), signal.SIGKILL)
        if not self._struck:
            self._struck = True
            os.kill(process, how)

    def _is_meant(self, document: JournalDocument) -> bool:
        self._documents += 1
        names = {transition["target"] for transition in document.transitions}
        names |= {command["type"] for command in document.commands}
        driver = document.scheduler["driver"] or {}
        if driver.get("submission_id") not in (None, self._submission):
            names.add("submitted")
        self._submission = driver.get("submission_id")
        if self._documents == 1:
            names = {"claim"}
        elif document.scheduler["current"]["type"] == "Created":
            names.add("again")
        return self._what in names or self._what == f"number {self._documents}"


class DyingTransport(httpx.AsyncHTTPTransport):
    """Strikes around the first request of a kind."""

    def __init__(self, when: str, path: str, strike: Callable[[], None]) -> None:
        super().__init__()
        self._when = when
        self._path = path
        self._strike = strike

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fatal = self._path in request.url.path
        self._strike_if(fatal, "before")
        if fatal and self._when == "sent":
            request.extensions["trace"] = self._strike_when_sent
        response = await super().handle_async_request(request)
        self._strike_if(fatal, "answered")
        return response

    def _strike_if(self, fatal: bool, when: str) -> None:
        if fatal and self._when == when:
            self._strike()

    async def _strike_when_sent(self, event: str, _: Any) -> None:
        if event == SENT:
            self._strike()
