"""The reports of the sources before and after the first batch of a run, with sources that the test controls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.documents import FailureReport, QueryReport
from airflow_adaptive._core.protocol.sources import FILES, KafkaSource, Shuffle, SourceReport, TopicReport
from airflow_adaptive.job.queries.sources import query_sources
from airflow_adaptive.job.queries.sources.kafka_topics import Division, KafkaSourceError
from airflow_adaptive.job.queries.sources.offsets import ReadPosition
from airflow_adaptive.job.queries.sources.query_sources import (
    FileSources,
    QuerySources,
    UnreadFiles,
    report_files,
    require_known_topics,
    shuffle_in,
    shuffle_of,
)
from airflow_adaptive.job.queries.sources.topic_ids import TopicRecreatedError
from airflow_adaptive.local.waiting import wait_until

A = ("a", 0)
KAFKA = KafkaSource(cluster="x")
NAME = "KafkaV2[Subscribe[a]]"
TIMEOUT_S = 60.0
REPORT = QueryReport(name="q", active=True)


class Source:
    """A topic with 20 rows."""

    description = NAME
    source = KAFKA

    def end_offsets(self) -> Any:
        return {A: 20}

    def division(self) -> Division:
        return Division()

    def retention_s(self, topics: Collection[str]) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass


class Run:
    """A run from the checkpoint after the sixth row; its search for sources ends when the test permits it."""

    def __init__(self, *, may_search: bool = True) -> None:
        self.may_search = threading.Event()
        if may_search:
            self.may_search.set()
        self.is_position_readable = True
        self.explanations = ["topic 'a' does not exist on one:9092"]

    def explain(self) -> str:
        return self.explanations.pop()

    def sources(self) -> Any:
        assert self.may_search.wait(TIMEOUT_S)
        return {0: Source()}

    def position(self) -> ReadPosition | None:
        if not self.is_position_readable:
            raise Py4JError("the storage does not answer")
        return ReadPosition(at=0.0, offsets={0: {A: 6}}, sources=1)

    def shuffle(self) -> None:
        return None

    def stop(self) -> None:
        pass


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begin runs of the same query in the same driver."""
    runs: list[Run] = []
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: None))
    spark: Any = None
    monkeypatch.setattr(query_sources, "_Run", lambda *_: runs[-1])
    sources = QuerySources(spark, lambda warning: None)

    def begin_run(run: Run) -> QuerySources:
        runs.append(run)
        sources.begin(query)
        return sources

    yield begin_run
    sources.end()


def batch(end: int) -> list[Any]:
    offsets = '{"a":{"0":%d}}'
    return [
        SimpleNamespace(description=NAME, startOffset=offsets % 0, endOffset=offsets % end, latestOffset=offsets % 20)
    ]


def reports(sources: QuerySources, progress: list[Any]) -> tuple[SourceReport, ...]:
    return sources.polled(REPORT, progress).sources


def rows(sources: QuerySources, progress: list[Any], expected: int) -> Callable[[], bool]:
    return lambda: [source.lag_rows for source in reports(sources, progress)] == [expected]


def unknown(read: int, kafka: KafkaSource | None = KAFKA) -> tuple[SourceReport, ...]:
    topics = {"a": TopicReport(position={"0": read})}
    return (SourceReport(kind="KafkaV2", kafka=kafka, topics=topics, is_lag_unknown=True),)


KAFKA_FAILURE = FailureReport(
    error_class="TimeoutException", message="Timed out", causes=("org.apache.kafka.common.errors.TimeoutException",)
)


def test_failure_of_kafka_names_the_topics_and_servers_which_are_found_once(begin: Callable[[Run], QuerySources]):
    sources = begin(run := Run())
    for _ in range(2):
        assert sources.explain(KAFKA_FAILURE).message == "topic 'a' does not exist on one:9092: Timed out"
    run.explanations = [""]
    begin(run)
    assert sources.explain(KAFKA_FAILURE) == KAFKA_FAILURE


@pytest.mark.parametrize(
    "failure",
    [
        replace(KAFKA_FAILURE, causes=("java.io.IOException",)),
        replace(KAFKA_FAILURE, error_class="KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"),
    ],
)
def test_other_failures_remain(begin: Callable[[Run], QuerySources], failure: FailureReport):
    assert begin(Run()).explain(failure) == failure


def test_failure_of_a_query_that_was_never_started_remains():
    spark: Any = None
    assert QuerySources(spark, print).explain(KAFKA_FAILURE) == KAFKA_FAILURE


def test_new_driver_reports_no_source_until_its_sources_were_found(begin: Callable[[Run], QuerySources]):
    sources = begin(run := Run(may_search=False))
    assert reports(sources, []) == ()
    run.may_search.set()
    wait_until(rows(sources, [], 14), TIMEOUT_S, "the first poll")


def test_lag_of_a_batch_is_unknown_until_the_sources_were_found(begin: Callable[[Run], QuerySources]):
    """Spark has committed a batch, and the analyzed plan of the query cannot be read."""
    sources = begin(run := Run(may_search=False))
    assert reports(sources, batch(9)) == unknown(9, kafka=None)
    run.may_search.set()
    wait_until(rows(sources, batch(9), 11), TIMEOUT_S, "the first poll")


@pytest.mark.parametrize("is_position_readable", [True, False])
def test_position_remains_while_the_next_run_begins(begin: Callable[[Run], QuerySources], is_position_readable: bool):
    """The driver rescales. The lag is unknown until the run has found its sources and its position, or has committed a batch."""
    sources = begin(Run())
    wait_until(rows(sources, batch(6), 14), TIMEOUT_S, "the first poll")
    following = Run(may_search=False)
    following.is_position_readable = is_position_readable
    begin(following)
    for _ in range(2):
        assert reports(sources, []) == unknown(6)
    following.may_search.set()
    if is_position_readable:
        wait_until(rows(sources, [], 14), TIMEOUT_S, "the position in the checkpoint")
    else:
        assert reports(sources, []) == unknown(6)
    wait_until(rows(sources, batch(10), 10), TIMEOUT_S, "the lag after a batch")


def test_source_that_is_never_polled_keeps_its_report_while_the_next_run_begins(begin: Callable[[Run], QuerySources]):
    sources = begin(Run())
    rate = SimpleNamespace(
        description="RateStreamV2[rowsPerSecond=1]", startOffset="0", endOffset="5", latestOffset="5"
    )
    assert reports(sources, [rate]) == (SourceReport(kind="RateStreamV2"),)
    begin(Run(may_search=False))
    assert reports(sources, []) == (SourceReport(kind="RateStreamV2"),)


def test_age_of_files_is_unknown_while_the_next_run_begins(
    begin: Callable[[Run], QuerySources], monkeypatch: pytest.MonkeyPatch
):
    """A file source lists its directory when a batch begins."""
    monkeypatch.setattr(FileSources, "unread", lambda *_: {0: UnreadFiles(3, 0)})
    sources = begin(Run())
    (files,) = reports(sources, [SimpleNamespace(description="FileStreamSource[file:/in]")])
    assert files.unread_files == 3
    begin(Run(may_search=False))
    assert reports(sources, []) == (SourceReport(kind="FileStreamSource", is_lag_unknown=True),)


def test_unchecked_source_hides_no_topic_of_another_source_that_was_created_again(
    monkeypatch: pytest.MonkeyPatch,
):
    errors: list[Exception] = [KafkaSourceError("no broker answers"), TopicRecreatedError("topic 'a' was deleted")]
    closed: list[int] = []

    def topics(_: Any, number: int, *__: Any) -> Any:
        def check(position: Any) -> None:
            assert position == ({} if number else {A: 6})
            raise errors[number]

        return SimpleNamespace(require_known_topics=check, close=lambda: closed.append(number), description=NAME)

    plans = SimpleNamespace(analyzed=lambda: None)
    monkeypatch.setattr(query_sources, "writer_plans", lambda _: plans)
    monkeypatch.setattr(query_sources, "kafka_relations", lambda *_: enumerate("ab"))
    monkeypatch.setattr(query_sources, "KafkaTopics", topics)
    read = ReadPosition(at=0.0, offsets={0: {A: 6}}, sources=2)
    monkeypatch.setattr(query_sources, "position_in_checkpoint", lambda *_: read)
    warnings: list[str] = []
    unused: Any = None
    with pytest.raises(TopicRecreatedError):
        require_known_topics(unused, unused, "at", warnings.append)
    assert warnings == [f"the topics of {NAME} cannot be checked before the start: no broker answers"]
    assert closed == [0, 1]


# ---- the plans are those of Spark 4.3 with its connector for Kafka --------------------------------------------------


SCAN = "MicroBatchScan[key#7, value#8] class org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan"

AGGREGATION = f"""
+- StateStoreSave [partition#10], state info [ checkpoint = file:/ck/state, runId = 7eb, opId = 0, ver = 3]
   +- Exchange hashpartitioning(partition#10, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=372]
      +- {SCAN}"""

REPARTITIONED = f"""
+- AdaptiveSparkPlan isFinalPlan=false
   +- == Initial Plan ==
      Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=254]
      +- {SCAN}"""

BROADCAST = f"""
+- *(1) BroadcastHashJoin [key#7], [id#1], Inner, BuildRight
   :- {SCAN}
   +- BroadcastExchange HashedRelationBroadcastMode(List(id#1)), [plan_id=3]"""


@pytest.mark.parametrize(
    ("plan", "shuffle"),
    [
        (f"+- *(1) Project [key#7]\n   +- {SCAN}", Shuffle.NONE),
        (AGGREGATION, Shuffle.EXCHANGE),
        (REPARTITIONED, Shuffle.REPARTITION),
        (AGGREGATION + REPARTITIONED, Shuffle.REPARTITION),
        (BROADCAST, Shuffle.NONE),
    ],
    ids=["none", "aggregation", "repartition", "both", "broadcast"],
)
def test_shuffle_is_read_from_the_plan(plan: str, shuffle: Shuffle):
    assert shuffle_in(plan) is shuffle
    assert shuffle_of(execution("NoopTable$", plan)) is shuffle


def execution(sink: str, plan: str | None) -> Any:
    executed = SimpleNamespace(executedPlan=lambda: SimpleNamespace(toString=lambda: plan))
    return SimpleNamespace(
        sink=lambda: SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: sink)),
        lastExecution=lambda: None if plan is None else executed,
    )


def test_plan_is_unknown_before_the_first_batch():
    assert shuffle_of(execution("NoopTable$", None)) is None


def test_what_a_function_of_the_script_does_is_unknown():
    assert shuffle_of(execution("ForeachBatchSink", SCAN)) is Shuffle.UNKNOWN


# ---- the unread files of file sources, without Spark ----------------------------------------------------------------


class Files(list[int]):
    """A Scala sequence of files with these modification times."""

    def isEmpty(self) -> bool:
        return not self

    def size(self) -> int:
        return len(self)

    def head(self) -> Any:
        return SimpleNamespace(timestamp=lambda: self[0])

    def last(self) -> Any:
        return SimpleNamespace(timestamp=lambda: self[-1])


class PrivateField:
    """A private field of the JVM, which cannot be read before it is made accessible."""

    def __init__(self, content: Files | None) -> None:
        self._content = content
        self._is_accessible = False

    def setAccessible(self, is_accessible: bool) -> None:
        self._is_accessible = is_accessible

    def get(self, _: object) -> Files | None:
        if not self._is_accessible:
            raise Py4JError("the field is private")
        return self._content


class JvmSource:
    """A source of the JVM."""

    def __init__(self, files: Files | None, kind: str = FILES) -> None:
        self._files = files
        self._kind = kind

    def getClass(self) -> Any:
        return SimpleNamespace(
            getSimpleName=lambda: self._kind,
            getDeclaredField=lambda name: {"unreadFiles": PrivateField(self._files)}[name],
        )


HOUR_MS = 3_600_000


def run(*sources: JvmSource, has_data: bool = True) -> Any:
    """A run whose newest trigger has found data or not."""
    return SimpleNamespace(sources=lambda: sources, status=lambda: SimpleNamespace(isDataAvailable=lambda: has_data))


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> FileSources:
    monkeypatch.setattr(query_sources, "from_scala", lambda _, found: found)
    return FileSources(None, warnings.append)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [[5, 7, 9], [9, 7, 5]])
def test_unread_files_have_a_number_and_the_time_of_the_oldest(sources: FileSources, times: list[int]) -> None:
    sources.begin(run(JvmSource(None, "KafkaV2"), JvmSource(Files(times))))
    assert sources.unread(HOUR_MS) == {1: UnreadFiles(3, 5)}


@pytest.mark.parametrize("files", [None, Files()])
@pytest.mark.parametrize(
    ("has_data", "trigger_interval_ms", "is_known"),
    [(False, None, True), (False, 60_000, True), (False, HOUR_MS, False), (True, 0, False)],
)
def test_source_without_a_list_has_no_unread_files_only_if_spark_found_none(
    sources: FileSources, files: Files | None, has_data: bool, trigger_interval_ms: int | None, is_known: bool
) -> None:
    sources.begin(run(JvmSource(files), has_data=has_data))
    assert sources.unread(trigger_interval_ms) == ({0: UnreadFiles(0, None)} if is_known else {})


def test_files_that_spark_does_not_provide_are_unknown_and_reported_once(
    sources: FileSources, warnings: list[str]
) -> None:
    def fail() -> Any:
        raise Py4JError("no such method")

    sources.begin(SimpleNamespace(sources=fail))
    assert sources.unread(0) == sources.unread(0) == {}
    assert warnings == ["the unread files of the sources are not known: no such method"]


def test_report_has_the_age_of_the_oldest_file() -> None:
    assert report_files(UnreadFiles(3, 5_000), 12.34) == SourceReport(kind=FILES, unread_files=3, lag_s=7.3)


def test_file_from_the_future_has_no_age() -> None:
    assert report_files(UnreadFiles(1, 5_000), 4.0).lag_s == 0.0


def test_source_that_has_read_all_files_has_no_lag() -> None:
    assert report_files(UnreadFiles(0, None), 4.0) == SourceReport(kind=FILES, unread_files=0, lag_s=0.0)


def test_unknown_files_have_no_lag() -> None:
    assert report_files(None, 4.0) == SourceReport(kind=FILES)
