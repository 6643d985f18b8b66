"""What Real-Time Mode requires of the queries of a job. Spark checks one requirement at a time, and only when a query starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_adaptive.job.queries.real_time.writer_settings import WriterSettings
from airflow_adaptive.job.queries.writers import AdaptiveJobError

SINKS: Final = ("kafka", "console", "foreach")
"""Sinks of Spark's `RealTimeModeAllowlist`, by their names in a script."""

SOURCES: Final = ("kafka",)

SOURCE_OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "minPartitions",
    "endingTimestamp",
    "maxTriggerDelay",
)
"""Options of Kafka sources with which Spark fails each batch (`KafkaMicroBatchStream.planInputPartitions`)."""

UPDATE: Final = "Update"

ROCKSDB: Final = "RocksDBStateStoreProvider"

OLDEST_FORMAT: Final = 2
"""Oldest format of state-store checkpoints in which a batch that runs again cannot use files of its first run."""


class RealTimeModeError(AdaptiveJobError):
    """A query cannot run in Real-Time Mode. A restart does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the session of the driver determines.

    Attributes:
        checks_sinks: whether Spark rejects sinks that it does not know (`spark.sql.streaming.realTimeMode.allowlistCheck`).
        min_batch_ms: shortest batch that Spark permits, in milliseconds.
        provider: class of the state store provider.
    """

    checks_sinks: bool
    min_batch_ms: int
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a query before its start.

    Attributes:
        settings: settings of the script.
        is_stateful: whether the query has state.
        checkpoint_format: format of the state in the checkpoint, None without state.
    """

    settings: WriterSettings
    is_stateful: bool
    checkpoint_format: int | None


def require_real_time(queries: Mapping[str, Facts], others: list[str], session: Session) -> None:
    """Require that queries can run in Real-Time Mode.

    Args:
        queries: queries in Real-Time Mode, by name.
        others: names of the other queries of the job.
        session: settings of the session.

    Raises:
        RealTimeModeError: the queries cannot run; the message contains all violations with their remedies.
    """
    violations = [f"query {name!r}: {text}" for name, facts in queries.items() for text in _violations(facts, session)]
    if others:
        violations.append(
            f"queries {others} are not in Real-Time Mode and would take slots of its gang: run them in a job of their own"
        )
    if violations:
        raise RealTimeModeError(f"Real-Time Mode cannot start: {'; '.join(violations)}")


def _violations(facts: Facts, session: Session) -> Iterator[str]:
    yield from _setting_violations(facts.settings, session)
    if facts.checkpoint_format is not None and facts.checkpoint_format < OLDEST_FORMAT:
        yield (
            f"its checkpoint has state-store format {facts.checkpoint_format}, in which Real-Time Mode could lose data: give the "
            "query another name, so that it starts with a new checkpoint"
        )
    if facts.is_stateful and not session.provider.endswith(ROCKSDB):
        yield (
            f"the state store {session.provider} has no checkpoint format {OLDEST_FORMAT}: remove "
            f"spark.sql.streaming.stateStore.providerClass, so that the state is in {ROCKSDB}"
        )


def _setting_violations(settings: WriterSettings, session: Session) -> Iterator[str]:
    if session.checks_sinks and settings.sink not in SINKS:
        yield f"the sink {settings.sink or 'without a format'} is not supported: use {', '.join(SINKS)}"
    if settings.output_mode != UPDATE:
        yield f'the output mode {settings.output_mode} is not supported: add .outputMode("update")'
    for source in settings.sources:
        if source not in SOURCES:
            yield f"the source {source} is not supported: use {', '.join(SOURCES)}"
    for option in SOURCE_OPTIONS:
        if option.lower() in settings.source_options:
            yield f"the option {option} of a source is not supported: remove the option"
    if settings.batch_ms is not None and settings.batch_ms < session.min_batch_ms:
        yield f"batches of {settings.batch_ms} ms are too short: set realTime to {session.min_batch_ms} ms or more"
