"""Live updates of jobs: one poll per second for each watched job in this process, shared by all subscribers of the job.

A server notifies its apps of the shutdown only after all responses have ended, and Airflow's API server waits two minutes for them.
Therefore this module also handles the signal, and then calls the previous handler of the signal.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 1.0
HEARTBEAT_INTERVAL_S: Final = 15.0
"""Proxies close connections without traffic."""

MAX_SUBSCRIBERS: Final = 200
"""Maximum number of subscribers in this process. Each subscriber keeps a connection open."""

MAX_SUBSCRIBERS_PER_USER: Final = 20
"""Maximum number of subscribers of one user in this process, so that one user cannot exclude the others."""

LIFETIME_S: Final = 600.0
"""Maximum duration of a subscription. A new connection checks the login and the permissions again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One observation of a watched job.

    Attributes:
        revision: differs between different observations.
        content: value for the subscribers; None if the job does not exist anymore.
    """

    revision: Hashable
    content: Any


Poll = Callable[[Hashable], Update | None]
"""Blocking function that polls a job. Gets the last revision, and returns None if the revision is unchanged."""


class TooManySubscribersError(RuntimeError):
    """The feed has reached its maximum number of subscribers.

    Attributes:
        is_of_user: whether the user has reached the maximum of each user.
    """

    def __init__(self, message: str, *, is_of_user: bool) -> None:
        super().__init__(message)
        self.is_of_user = is_of_user


@dataclass(eq=False, slots=True)
class _Topic:
    """A watched job. The event `changed` is set, and replaced, when there is a newer update."""

    poll: Poll
    subscribers: int = 0
    update: Update | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    last_error: str | None = None


@dataclass(eq=False, kw_only=True)
class Feed:
    """The watched jobs of this process."""

    poll_interval_s: float = POLL_INTERVAL_S
    heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S
    lifetime_s: float = LIFETIME_S
    max_subscribers: int = MAX_SUBSCRIBERS
    max_subscribers_per_user: int = MAX_SUBSCRIBERS_PER_USER
    _topics: dict[Hashable, _Topic] = field(default_factory=dict, init=False)
    _of_users: Counter[str] = field(default_factory=Counter, init=False)
    _is_closed_with_the_server: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def subscribers(self) -> int:
        """Current number of subscribers."""
        return self._of_users.total()

    def check_capacity(self, user: str) -> None:
        """Raise `TooManySubscribersError` if the feed accepts no more subscribers, or no more subscribers of this user."""
        if self._of_users[user] >= self.max_subscribers_per_user:
            raise TooManySubscribersError(f"the user has {self._of_users[user]} subscribers already", is_of_user=True)
        if self._of_users.total() >= self.max_subscribers:
            raise TooManySubscribersError(f"the feed has {self.max_subscribers} subscribers already", is_of_user=False)

    def close(self) -> None:
        """End all subscriptions, because the server stops."""
        self._is_closed = True
        for topic in self._topics.values():
            topic.changed.set()

    async def subscribe(self, key: Hashable, poll: Poll, user: str) -> AsyncGenerator[Update | None]:
        """Yield the last update and each new update, until the job is gone, the lifetime ends or the server stops.

        Subscribers of the same job share the function of the first subscriber.

        None is a heartbeat.

        Raises:
            TooManySubscribersError: the feed accepts no more subscribers.
        """
        self.check_capacity(user)
        topic, loop = self._join(key, poll), asyncio.get_running_loop()
        self._of_users[user] += 1
        place = ExitStack()
        place.callback(self._leave, key, topic, user)
        # A client that reads nothing never asks for the next update, so a timer ends its subscription.
        end, sent = loop.call_later(self.lifetime_s, place.close), None
        try:
            while not self._is_closed and (left := end.when() - loop.time()) > 0:
                if topic.update is not None and topic.update is not sent:
                    sent = topic.update
                    yield sent
                    if sent.content is None:
                        return
                elif not await _set_within(topic.changed, min(left, self.heartbeat_interval_s)):
                    yield None
        finally:
            end.cancel()
            place.close()

    def _join(self, key: Hashable, poll: Poll) -> _Topic:
        if not self._is_closed_with_the_server:
            self._is_closed_with_the_server = True
            call_when_stopped(self.close)
        topic = self._topics.setdefault(key, _Topic(poll=poll))
        topic.subscribers += 1
        if topic.task is None:
            topic.task = asyncio.create_task(self._watch(topic))
        return topic

    def _leave(self, key: Hashable, topic: _Topic, user: str) -> None:
        self._of_users[user] -= 1
        self._of_users += Counter()  # forget users without subscribers
        topic.subscribers -= 1
        if not topic.subscribers:
            self._topics.pop(key, None)
            if topic.task is not None:
                topic.task.cancel()

    async def _watch(self, topic: _Topic) -> None:
        while True:
            update = await self._poll(topic)
            if update is not None:
                topic.update, changed, topic.changed = update, topic.changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(self.poll_interval_s)

    async def _poll(self, topic: _Topic) -> Update | None:
        """Poll a job. Return None if nothing has changed, or if the poll fails."""
        revision = None if topic.update is None else topic.update.revision
        try:
            update = await asyncio.to_thread(topic.poll, revision)
        except Exception as error:  # noqa: BLE001  a database raises many kinds of errors, and later polls may succeed
            if topic.last_error != str(error):
                log.warning("A watched job cannot be read: %s", error)
                topic.last_error = str(error)
            return None
        topic.last_error = None
        return update


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def call_when_stopped(callback: Callable[[], object]) -> None:
    """Call a function in the running event loop when this process receives a signal to stop.

    Does nothing outside the main thread, where Python cannot handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        signal.signal(number, _after(signal.getsignal(number), loop, callback))


def _after(previous: Any, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Any:
    """Return a handler that calls the function, and then the previous handler."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)
        if callable(previous):
            previous(number, frame)
        elif previous is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle
