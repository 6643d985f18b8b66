"""The unread commits of tables, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.job.queries.sources import table_commits
from airflow_adaptive.job.queries.sources.table_commits import (
    MAX_COMMITS,
    DeltaTable,
    IcebergTable,
    TableError,
    TableSources,
)
from airflow_adaptive.local.waiting import wait_until

TIMEOUT_S = 60.0
NOW = 1000.0


class DeltaLog:
    """The log of a Delta table in a storage of Hadoop, with the time of each version."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.requests = 0
        self.is_down = False
        self.id = "a"
        defaults = {f"update$default${number}": lambda number=number: number for number in (1, 2, 3)}
        self.deltaLog = SimpleNamespace(update=self.update, **defaults)
        self._jvm = SimpleNamespace(
            **{"org.apache.hadoop.fs.Path": lambda path: SimpleNamespace(text=path, getFileSystem=lambda _: self)}
        )
        self._jsparkSession = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None))

    def exists(self, path: Any) -> bool:
        self.requests += 1
        if self.is_down:
            raise Py4JError("the storage does not answer")
        return self._version(path) in self.times

    def getFileStatus(self, path: Any) -> Any:
        return SimpleNamespace(getModificationTime=lambda: int(self.times[self._version(path)] * 1000))

    def update(self, *arguments: int) -> Any:
        assert arguments == (1, 2, 3)
        return SimpleNamespace(metadata=lambda: SimpleNamespace(id=lambda: self.id))

    def source(self) -> Any:
        return SimpleNamespace(
            deltaLog=lambda: self.deltaLog,
            toString=lambda: "DeltaSource[file:/t]",
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: "DeltaSource"),
        )

    def table(self) -> DeltaTable:
        session: Any = self
        return DeltaTable(session, self.source())

    @staticmethod
    def _version(path: Any) -> int:
        assert path.text.startswith("file:/t/_delta_log/")
        return int(path.text.removeprefix("file:/t/_delta_log/").removesuffix(".json"))


class Snapshot(SimpleNamespace):
    """A snapshot of an Iceberg table."""

    def __init__(self, number: int, operation: str = "append", files: int = 1, total: int = 1) -> None:
        summary = {"added-data-files": str(files), "total-data-files": str(total)}
        super().__init__(
            snapshotId=lambda: number,
            operation=lambda: operation,
            timestampMillis=lambda: number * 1000,
            summary=lambda: summary,
        )


class Snapshots:
    """An Iceberg table with these snapshots, oldest first."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.visible: list[Snapshot] = []

    def refresh(self) -> None:
        self.visible = list(self.snapshots)

    def currentSnapshot(self) -> Any:
        return self._with_parent(len(self.visible) - 1)

    def snapshot(self, number: int) -> Any:
        (at,) = [at for at, snapshot in enumerate(self.visible) if snapshot.snapshotId() == number]
        return self._with_parent(at)

    def _with_parent(self, at: int) -> Any:
        snapshot = self.visible[at]
        snapshot.parentId = lambda: self.visible[at - 1].snapshotId() if at else None
        return snapshot


def iceberg(monkeypatch: pytest.MonkeyPatch, table: Snapshots) -> IcebergTable:
    monkeypatch.setattr(table_commits, "private_field", lambda source, name: {"table": source}[name])
    session: Any = None
    return IcebergTable(session, table)


def delta_offset(version: int, **more: Any) -> dict[str, Any]:
    return {"reservoirId": "a", "reservoirVersion": version, "index": -1, "isStartingVersion": False, **more}


def iceberg_offset(snapshot: int, position: int = 1, *, whole: bool = False) -> dict[str, Any]:
    return {"snapshot_id": snapshot, "position": position, "scan_all_files": whole}


def numbers(table: Any, offset: dict[str, Any]) -> list[int]:
    return [commit.number for commit in table.unread(offset).commits]


def test_versions_from_the_offset_on_are_unread_and_each_is_requested_once():
    log = DeltaLog()
    log.times = {version: 100.0 + version for version in range(6)}
    table = log.table()
    table.poll(delta_offset(3))
    assert [(commit.number, commit.at) for commit in table.unread(delta_offset(3)).commits] == [
        (3, 103.0),
        (4, 104.0),
        (5, 105.0),
    ]
    assert numbers(table, delta_offset(5)) == [5], "the query has read since"
    log.requests = 0
    table.poll(delta_offset(4))
    assert log.requests == 1


def test_table_without_a_newer_version_has_no_unread_commit():
    log = DeltaLog()
    log.times = {2: 1.0}
    table = log.table()
    table.poll(delta_offset(3))
    assert numbers(table, delta_offset(3)) == []


def test_log_without_the_version_that_was_read_is_an_error():
    with pytest.raises(TableError, match="has no version 2"):
        DeltaLog().table().poll(delta_offset(3))


def test_first_version_of_a_query_contains_the_rows_of_all_earlier_ones():
    log = DeltaLog()
    log.times = {2: 1.0}
    table = log.table()
    table.poll(delta_offset(2, isStartingVersion=True))
    assert table.unread(delta_offset(2, isStartingVersion=True)).is_minimum


def test_versions_above_the_limit_of_a_poll_make_the_number_a_minimum():
    log = DeltaLog()
    log.times = dict.fromkeys(range(MAX_COMMITS + 1), 1.0)
    table = log.table()
    table.poll(delta_offset(0))
    assert len(table.unread(delta_offset(0)).commits) == MAX_COMMITS
    assert table.unread(delta_offset(0)).is_minimum


def test_snapshots_after_the_offset_that_append_rows_are_unread(monkeypatch: pytest.MonkeyPatch):
    table = iceberg(monkeypatch, Snapshots(Snapshot(1), Snapshot(2), Snapshot(3, "replace"), Snapshot(4), Snapshot(5)))
    table.poll(iceberg_offset(2))
    assert numbers(table, iceberg_offset(2)) == [4, 5]
    assert numbers(table, iceberg_offset(4)) == [5]
    assert numbers(table, iceberg_offset(6)) == [], "committed and read since the poll"
    assert not table.unread(iceberg_offset(2)).is_minimum


@pytest.mark.parametrize(("whole", "read"), [(False, 1), (True, 3)])
def test_snapshot_of_which_files_are_left_is_unread(monkeypatch: pytest.MonkeyPatch, whole: bool, read: int):
    table = iceberg(monkeypatch, Snapshots(Snapshot(1, files=2, total=4)))
    table.poll(iceberg_offset(1, read, whole=whole))
    unread = table.unread(iceberg_offset(1, read, whole=whole))
    assert [commit.number for commit in unread.commits] == [1]
    assert unread.is_minimum is whole
    assert numbers(table, iceberg_offset(1, read + 1, whole=whole)) == []


def test_table_without_the_snapshot_that_was_read_is_an_error(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(TableError, match="has no snapshot 7"):
        iceberg(monkeypatch, Snapshots(Snapshot(1), Snapshot(2))).poll(iceberg_offset(7))


def test_snapshots_above_the_limit_of_a_poll_make_the_number_a_minimum(monkeypatch: pytest.MonkeyPatch):
    table = iceberg(monkeypatch, Snapshots(*map(Snapshot, range(1, MAX_COMMITS + 2))))
    table.poll(iceberg_offset(1))
    unread = table.unread(iceberg_offset(1))
    assert len(unread.commits) == MAX_COMMITS
    assert unread.is_minimum


@pytest.fixture
def log() -> DeltaLog:
    found = DeltaLog()
    found.times = {0: NOW - 50, 1: NOW - 20}
    return found


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def sources(log: DeltaLog, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[TableSources]:
    monkeypatch.setattr(table_commits, "from_scala", lambda _, found: found)
    session: Any = log
    found = TableSources(session, warnings.append, clock=lambda: NOW, interval_s=0.001)
    found.begin(SimpleNamespace(sources=lambda: [log.source()], stop=lambda: warnings.append("stopped")))
    yield found
    found.end()


def progress(offset: dict[str, Any] | None, description: str = "DeltaSource[file:/t]") -> Any:
    return SimpleNamespace(description=description, endOffset=json.dumps(offset))


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, TIMEOUT_S, "the poll", 0.001)


def test_lag_is_unknown_before_the_first_poll_then_the_age_of_a_commit(sources: TableSources):
    assert sources.report(0, progress(delta_offset(0))) == SourceReport(kind="DeltaSource", is_lag_unknown=True)
    wait_for(lambda: (found := sources.report(0, progress(delta_offset(0)))) and found.unread_versions)
    assert sources.report(0, progress(delta_offset(0))) == SourceReport(
        kind="DeltaSource", unread_versions=2, lag_s=50.0
    )
    assert sources.report(0, progress(delta_offset(2))) == SourceReport(
        kind="DeltaSource", unread_versions=0, lag_s=0.0
    )


def test_storage_that_fails_makes_the_lag_unknown_with_one_warning(
    sources: TableSources, log: DeltaLog, warnings: list[str]
):
    sources.report(0, progress(delta_offset(0)))
    wait_for(lambda: (found := sources.report(0, progress(delta_offset(0)))) and found.unread_versions)
    log.is_down, log.requests = True, 0
    wait_for(lambda: sources.problem is not None and log.requests > 3)
    assert sources.report(0, progress(delta_offset(0))) == SourceReport(kind="DeltaSource", is_lag_unknown=True)
    assert warnings == ["the unread commits of a table are not known: the storage does not answer"]
    log.is_down = False
    wait_for(lambda: sources.problem is None)


def test_query_whose_table_was_created_again_is_stopped(sources: TableSources, log: DeltaLog, warnings: list[str]):
    """The versions of the new table that have the numbers of old ones would be left out."""
    sources.report(0, progress(delta_offset(0)))
    wait_for(lambda: (found := sources.report(0, progress(delta_offset(0)))) and found.unread_versions)
    assert sources.failure is None
    log.id = "b"
    wait_for(lambda: warnings)
    assert warnings == ["stopped"]
    assert "the table file:/t was deleted and created again" in str(sources.failure)


def test_other_sources_are_no_tables(sources: TableSources):
    assert sources.report(0, progress({}, "KafkaV2[Subscribe[a]]")) is None


def test_table_without_an_offset_has_an_unknown_lag(sources: TableSources):
    assert sources.report(0, progress(None)) == SourceReport(kind="DeltaSource", is_lag_unknown=True)
