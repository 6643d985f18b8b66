"""The ids of topics, with a file that the tests control."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_adaptive.job.queries.sources.topic_ids import KnownTopics, TopicGuard, TopicRecreatedError, decode_topics


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


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"a":"1"}', '{"x":{}}', '{"0":{}}', '{"0":{"cluster":"x","topics":[]}}', "[" * 99_999],
)
def test_unreadable_file_contains_no_topic(text: str) -> None:
    assert decode_topics(text.encode()) == {}
