"""The ids of topics, with a file that the tests control."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive.job.queries.sources.topic_ids import FILE, KnownTopics, TopicGuard, TopicIds, TopicRecreatedError
from airflow_adaptive.job.spark_internals import class_name


class Ids:
    """The file of a query."""

    def __init__(self, **ids: str) -> None:
        self.known = {0: KnownTopics("x", ids)} if ids else {}
        self.writes = 0

    @property
    def ids(self) -> Mapping[str, str]:
        """Ids of the topics of source 0."""
        return self.known[0].ids

    def read(self) -> dict[int, KnownTopics]:
        return dict(self.known)

    def write(self, known: dict[int, KnownTopics]) -> None:
        self.known = dict(known)
        self.writes += 1

    def __str__(self) -> str:
        return "at/kafka-topics.json"


def guard(ids: Ids, source: int = 0, *, strict: bool = True, warnings: list[str] | None = None) -> TopicGuard:
    return TopicGuard(ids, source, fail_on_data_loss=strict, warn=([] if warnings is None else warnings).append)


def test_new_topics_are_remembered_once() -> None:
    ids = Ids(a="1")
    guarded = guard(ids)
    guarded.require_same("x", {"a": "1", "b": "2"})
    guarded.require_same("x", {"a": "1", "b": "2"})
    assert (ids.ids, ids.writes) == ({"a": "1", "b": "2"}, 1)
    assert guarded.known() == {"a": "1", "b": "2"}


def test_topic_that_was_deleted_stays_known() -> None:
    ids = Ids(a="1", b="2")
    guard(ids).require_same("x", {"b": "2"})
    assert ids.ids == {"a": "1", "b": "2"}


def test_topics_of_another_source_of_the_query_stay_known() -> None:
    ids = Ids()
    first, second = guard(ids), guard(ids, 1)
    assert (first.known(), second.known()) == ({}, {})
    first.require_same("x", {"a": "1"})
    second.require_same("x", {"b": "2"})
    assert ids.known == {0: KnownTopics("x", {"a": "1"}), 1: KnownTopics("x", {"b": "2"})}


def test_topics_of_one_name_on_two_clusters_are_two_topics() -> None:
    ids = Ids()
    for _ in range(2):
        guard(ids, 0).require_same("x", {"orders": "1"})
        guard(ids, 1).require_same("y", {"orders": "2"})
    assert ids.known == {0: KnownTopics("x", {"orders": "1"}), 1: KnownTopics("y", {"orders": "2"})}


@pytest.mark.parametrize("id_", ["1", "9"])
def test_source_that_reads_its_topic_from_another_cluster_is_refused(id_: str) -> None:
    """The id may even be the same, if a tool has copied the topic."""
    ids = Ids(a="1")
    with pytest.raises(TopicRecreatedError) as raised:
        guard(ids).require_same("y", {"a": id_})
    assert str(raised.value).startswith(
        "topic 'a' was read from the Kafka cluster x before, and the source now reads the cluster y, so the offsets in the checkpoint do not "
        "apply. To read the new topic from its beginning, delete the checkpoint of the query. "
    )
    warnings: list[str] = []
    guard(ids, strict=False, warnings=warnings).require_same("y", {"a": id_})
    assert len(warnings) == 1
    assert ids.known == {0: KnownTopics("y", {"a": id_})}


def test_other_topics_on_another_cluster_replace_the_known_topics() -> None:
    ids = Ids(a="1")
    guard(ids).require_same("y", {"b": "2"})
    assert ids.known == {0: KnownTopics("y", {"b": "2"})}


def test_topics_of_a_cluster_without_an_id_cannot_be_compared_which_is_reported_once() -> None:
    ids, warnings = Ids(a="1"), list[str]()
    guarded = guard(ids, warnings=warnings)
    for _ in range(2):
        guarded.require_same(None, {"a": "9"})
    guarded.require_same(None, {})
    (warning,) = warnings
    assert warning == (
        "the brokers report no id of their cluster, so the driver does not notice if topic 'a' was created again"
    )
    assert ids.ids == {"a": "1"}


def test_topic_with_another_id_is_refused_with_both_remedies() -> None:
    ids = Ids(a="1", b="2")
    with pytest.raises(TopicRecreatedError) as raised:
        guard(ids).require_same("x", {"a": "9", "b": "2"})
    assert str(raised.value) == (
        "topic 'a' was deleted and created again since the query read it, so the offsets in the checkpoint do not apply. "
        "To read the new topic from its beginning, delete the checkpoint of the query. To continue with the old offsets, delete "
        "at/kafka-topics.json (a had the id 1)"
    )
    assert ids.ids == {"a": "1", "b": "2"}


def test_error_names_all_topics() -> None:
    with pytest.raises(TopicRecreatedError, match="^topics 'a', 'b' were deleted .*a had the id 1, b had the id 2"):
        guard(Ids(a="1", b="2")).require_same("x", {"b": "8", "a": "9"})


def test_source_that_accepts_a_loss_of_data_continues_with_one_warning() -> None:
    ids = Ids(a="1")
    warnings: list[str] = []
    guarded = guard(ids, strict=False, warnings=warnings)
    guarded.require_same("x", {"a": "9"})
    guarded.require_same("x", {"a": "9"})
    (warning,) = warnings
    assert "failOnDataLoss is false; it may leave out records" in warning
    assert ids.ids == {"a": "9"}


class HadoopPath:
    """A path of Hadoop, on the local file system."""

    def __init__(self, name: str) -> None:
        self.file = Path(name)

    def getFileSystem(self, _: Any) -> Any:
        return SimpleNamespace(exists=lambda path: path.file.exists(), open=lambda path: Stream(path.file.read_bytes()))

    def getParent(self) -> Path:
        return self.file.parent

    def toString(self) -> str:
        return str(self.file)


class Stream:
    """A stream of Hadoop."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.closed = False

    def readNBytes(self, count: int) -> bytes:
        return self.data[:count]

    def close(self) -> None:
        self.closed = True


class AtomicFile:
    """A file that exists after `close`."""

    def __init__(self, file: Path, fails: bool) -> None:
        self.file = file
        self.fails = fails
        self.data = b""
        self.is_canceled = False

    def write(self, data: bytearray) -> None:
        if self.fails:
            raise OSError("full")
        self.data = bytes(data)

    def cancel(self) -> None:
        self.is_canceled = True

    def close(self) -> None:
        self.file.write_bytes(self.data)


class Session:
    """A session with Hadoop's file systems."""

    def __init__(self) -> None:
        self.fails = False
        self.files: list[AtomicFile] = []
        self.version = "4.3.0"
        self._jsparkSession = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: "conf"))
        self._jvm = SimpleNamespace(
            **{
                "org.apache.hadoop.fs.Path": HadoopPath,
                class_name("CheckpointFileManager", self.version): SimpleNamespace(create=self._manager),
            }
        )

    def _manager(self, _: Path, conf: str) -> Any:
        assert conf == "conf"
        return SimpleNamespace(createAtomic=self._created)

    def _created(self, path: HadoopPath, overwrite: bool) -> AtomicFile:
        assert overwrite
        self.files.append(AtomicFile(path.file, self.fails))
        return self.files[-1]


KNOWN = {0: KnownTopics("x", {"a": "1"})}


def ids_in(checkpoint: Path, session: Any) -> TopicIds:
    return TopicIds(session, str(checkpoint))


def test_ids_are_in_a_file_of_the_checkpoint(tmp_path: Path) -> None:
    ids = ids_in(tmp_path, Session())
    assert ids.read() == {}
    ids.write(KNOWN)
    assert ids.read() == KNOWN
    assert json.loads((tmp_path / FILE).read_text()) == {"0": {"cluster": "x", "topics": {"a": "1"}}}
    assert str(ids) == str(tmp_path / FILE)


def test_file_that_cannot_be_written_is_an_error_and_leaves_the_old_ids(tmp_path: Path) -> None:
    session = Session()
    ids = ids_in(tmp_path, session)
    ids.write(KNOWN)
    session.fails = True
    with pytest.raises(OSError, match="full"):
        ids.write({})
    assert ids.read() == KNOWN
    assert [file.is_canceled for file in session.files] == [False, True]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"a":"1"}', '{"x":{}}', '{"0":{}}', '{"0":{"cluster":"x","topics":[]}}', "[" * 99_999],
)
def test_unreadable_file_contains_no_topic(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert ids_in(tmp_path, Session()).read() == {}
