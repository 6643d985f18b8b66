"""Who watches a job, live: one look a second at its mirror for each job that is watched in this process, however many watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_adaptive.plugin.api.shutdown import call_when_stopped

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
HEARTBEAT_EVERY_S: Final = 15.0
"""Proxies close connections on which nothing comes."""

MOST_LISTENERS: Final = 200
"""In this process; each keeps a connection open."""

LIFETIME_S: Final = 600.0
"""A listener has to connect anew after this, with a login that still holds and permissions of that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of a job.

    Attributes:
        revision: differs if anything does.
        shown: what listeners are told; None if the job is gone.
    """

    revision: Hashable
    shown: Any


Read = Callable[[Hashable], Look | None]
"""Looks, and blocks; gets the revision that was seen before, and returns None if it is still that."""


class CrowdedError(RuntimeError):
    """Too many listen already."""


@dataclass(eq=False, slots=True)
class _Topic:
    """A job that is watched.

    Attributes:
        read: looks at it.
        listeners: how many there are.
        look: the newest.
        news: is set when there is another.
    """

    read: Read
    listeners: int = 0
    look: Look | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    trouble: str | None = None


class Feed:
    """The jobs that are watched in this process."""

    def __init__(
        self,
        *,
        look_every_s: float = LOOK_EVERY_S,
        heartbeat_every_s: float = HEARTBEAT_EVERY_S,
        lifetime_s: float = LIFETIME_S,
        most_listeners: int = MOST_LISTENERS,
    ) -> None:
        """Nobody listens yet."""
        self._ends_with_the_server = False
        self._over = False
        self.look_every_s = look_every_s
        self.heartbeat_every_s = heartbeat_every_s
        self.lifetime_s = lifetime_s
        self.most_listeners = most_listeners
        self._topics: dict[Hashable, _Topic] = {}

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return sum(topic.listeners for topic in self._topics.values())

    def refuse_crowd(self) -> None:
        """Raise `CrowdedError` if nobody more may listen."""
        if self.listeners >= self.most_listeners:
            raise CrowdedError(f"{self.most_listeners} listen already")

    def close(self) -> None:
        """Let all listeners go: the server stops."""
        self._over = True
        for topic in self._topics.values():
            topic.news.set()

    async def listen(self, key: Hashable, read: Read) -> AsyncGenerator[Look | None]:
        """The newest look, then each one that differs, until the job is gone, the time is up or the server stops.

        None is a sign of life.

        Args:
            key: of what is watched.
            read: looks at it; of several listeners', the first one's is taken.

        Raises:
            CrowdedError: too many listen already.
        """
        self.refuse_crowd()
        topic = self._join(key, read)
        ends, seen = asyncio.get_running_loop().time() + self.lifetime_s, None
        try:
            while not self._over and (left := ends - asyncio.get_running_loop().time()) > 0:
                if topic.look is not None and topic.look is not seen:
                    seen = topic.look
                    yield seen
                    if seen.shown is None:
                        return
                elif not await _set_within(topic.news, min(left, self.heartbeat_every_s)):
                    yield None
        finally:
            self._leave(key, topic)

    def _join(self, key: Hashable, read: Read) -> _Topic:
        if not self._ends_with_the_server:
            self._ends_with_the_server = True
            call_when_stopped(self.close)
        topic = self._topics.setdefault(key, _Topic(read=read))
        topic.listeners += 1
        if topic.task is None:
            topic.task = asyncio.create_task(self._watch(topic))
        return topic

    def _leave(self, key: Hashable, topic: _Topic) -> None:
        topic.listeners -= 1
        if not topic.listeners:
            self._topics.pop(key, None)
            if topic.task is not None:
                topic.task.cancel()

    async def _watch(self, topic: _Topic) -> None:
        while True:
            look = await self._look(topic)
            if look is not None:
                topic.look, news, topic.news = look, topic.news, asyncio.Event()
                news.set()
            await asyncio.sleep(self.look_every_s)

    async def _look(self, topic: _Topic) -> Look | None:
        """A look that differs from the one before, None if there is none, or none that can be had now."""
        before = None if topic.look is None else topic.look.revision
        try:
            look = await asyncio.to_thread(topic.read, before)
        except Exception as error:  # noqa: BLE001  databases raise what they like, and are back later
            if topic.trouble != str(error):
                log.warning("A job that is watched can't be read now: %s", error)
                topic.trouble = str(error)
            return None
        topic.trouble = None
        return look


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
