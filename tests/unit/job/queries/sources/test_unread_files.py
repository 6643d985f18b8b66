"""The unread files of file sources, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.job.queries.sources import query_sources
from airflow_adaptive.job.queries.sources.query_sources import FILES, FileSources, UnreadFiles, report_files


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


class Source:
    """A source of the JVM."""

    def __init__(self, files: Files | None, kind: str = FILES) -> None:
        self._files = files
        self._kind = kind

    def getClass(self) -> Any:
        return SimpleNamespace(
            getSimpleName=lambda: self._kind,
            getDeclaredField=lambda name: {"unreadFiles": PrivateField(self._files)}[name],
        )


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> FileSources:
    monkeypatch.setattr(query_sources, "from_scala", lambda _, found: found)
    return FileSources(None, warnings.append)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [[5, 7, 9], [9, 7, 5]])
def test_unread_files_have_a_number_and_the_time_of_the_oldest(sources: FileSources, times: list[int]) -> None:
    sources.begin(SimpleNamespace(sources=lambda: [Source(None, "KafkaV2"), Source(Files(times))]))
    assert sources.unread() == {1: UnreadFiles(3, 5)}


@pytest.mark.parametrize("files", [None, Files()])
def test_source_without_a_list_has_no_unread_files(sources: FileSources, files: Files | None) -> None:
    sources.begin(SimpleNamespace(sources=lambda: [Source(files)]))
    assert sources.unread() == {0: UnreadFiles(0, None)}


def test_files_that_spark_does_not_provide_are_unknown_and_reported_once(
    sources: FileSources, warnings: list[str]
) -> None:
    def fail() -> Any:
        raise Py4JError("no such method")

    sources.begin(SimpleNamespace(sources=fail))
    assert sources.unread() == sources.unread() == {}
    assert warnings == ["the unread files of the sources are not known: no such method"]


def test_report_has_the_age_of_the_oldest_file() -> None:
    assert report_files(UnreadFiles(3, 5_000), 12.34) == SourceReport(kind=FILES, unread_files=3, lag_s=7.3)


def test_file_from_the_future_has_no_age() -> None:
    assert report_files(UnreadFiles(1, 5_000), 4.0).lag_s == 0.0


def test_files_may_have_arrived_since_the_last_list() -> None:
    assert report_files(UnreadFiles(0, None), 4.0) == SourceReport(
        kind=FILES, unread_files=0, lag_s=0.0, is_lag_minimum=True
    )


def test_unknown_files_have_no_lag() -> None:
    assert report_files(None, 4.0) == SourceReport(kind=FILES)
