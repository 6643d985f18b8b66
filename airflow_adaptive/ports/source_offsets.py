"""The port to the brokers of the sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_adaptive.job.protocol.sources import KafkaSource


class SourceOffsets(Protocol):
    """The brokers of the sources, as the loop reaches them while no driver reports the lag."""

    async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offset of each partition of the topics of a source, by topic and by the number of the partition.

        Args:
            source: the source, whose isolation level applies.
            topics: topics that the source has read. If the source has a pattern, other topics that the pattern matches are in the result, too.

        Raises:
            SourceUnreachableError: the brokers do not answer, refuse the request, do not know a topic, or belong to another cluster.
        """
        ...
