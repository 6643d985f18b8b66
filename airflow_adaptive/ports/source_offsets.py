"""The port to the brokers of the sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class SourceOffsets(Protocol):
    """The brokers of the sources, as the loop reaches them while no driver reports the lag."""

    async def end_offsets(self, topics: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offset of each partition of these topics, by topic and by the number of the partition.

        Raises:
            SourceUnreachableError: the brokers do not answer, refuse the request, or do not know a topic.
        """
        ...
