"""What the author's function is given, and what it may return."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.queries.writers import (
    AdaptiveJobError,
    PlannedParallelism,
    function_name,
    require_same_queries,
    require_writers,
)
from tests.support.driver.fake_spark import Stream


def names(returned: object) -> list[str]:
    writers = require_writers(returned, "departures", "flights")
    assert isinstance(writers, dict)
    return list(writers)


def refusal(returned: object) -> str:
    with pytest.raises(AdaptiveJobError) as caught:
        require_writers(returned, "departures", "flights")
    return str(caught.value)


def test_a_single_writer_gets_the_name_of_the_job():
    writer = Stream()
    assert require_writers(writer, "departures", "flights") == {"flights": writer}


def test_a_query_name_of_the_script_is_kept():
    assert names(Stream("hourly")) == ["hourly"]


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_writers_keep_their_names_and_order(kind):
    assert names(kind([Stream("b"), Stream("a")])) == ["b", "a"]


def test_a_list_of_one_writer_is_a_single_query():
    assert names([Stream()]) == ["flights"]


def test_a_batch_writer_is_accepted():
    writer = DataFrameWriter.__new__(DataFrameWriter)
    assert require_writers(writer, "departures", "flights") is writer


def test_no_query_is_rejected():
    assert refusal(None) == (
        "departures() returned NoneType: return df.writeStream... of a streaming DataFrame, not started, "
        "or a list of these, or df.write... of a batch, not saved"
    )
    assert refusal([]).startswith("departures() returned no query: return df.writeStream...")


def test_a_started_query_is_rejected():
    assert refusal(StreamingQuery.__new__(StreamingQuery)).startswith("departures() returned StreamingQuery: return")


def test_a_batch_among_queries_is_rejected():
    mixture = [Stream("a"), DataFrameWriter.__new__(DataFrameWriter), None]
    assert refusal(mixture).startswith("departures() returned DataFrameWriter, NoneType in a list: return")


def test_several_queries_without_names_are_rejected_with_their_numbers():
    assert refusal([Stream(), Stream("a"), Stream()]) == (
        "departures() returned queries without a name (number 1, 3 of 3): add .queryName(...) to each query, "
        "because the name identifies its checkpoint"
    )


def test_two_queries_of_one_name_are_rejected():
    assert "several queries of the name 'a'" in refusal([Stream("a"), Stream("b"), Stream("a")])


def test_a_function_may_return_the_same_queries_in_any_order():
    require_same_queries(["a", "b"], ["b", "a"], "departures")
    require_same_queries(["a", "b"], [], "departures")
    require_same_queries([], [], "departures")


def test_a_function_that_returns_other_queries_than_before_is_rejected_with_their_names():
    with pytest.raises(AdaptiveJobError, match=r"departures\(\) .* than before, 'b' is missing, 'c' is new: return"):
        require_same_queries(["a", "c"], ["a", "b"], "departures")


def test_messages_contain_the_name_of_the_function():
    def departures(options, spark, parallelism):
        raise NotImplementedError

    assert function_name(departures) == function_name(partial(departures, None)) == "departures"
    assert function_name(Stream("x")) == "Stream"


# ---- the parallelism ------------------------------------------------------------------------------------------------

PLAN = {"read": 2, "count": 4}


@pytest.mark.parametrize(
    "read",
    [
        lambda planned: planned["read"],
        lambda planned: planned.get("read"),
        lambda planned: planned.get("read", 1) + planned.get("absent", 1),
        lambda planned: "count" in planned and planned["read"],
    ],
    ids=["item", "get", "default", "contains"],
)
def test_a_vertex_that_is_read_is_recorded(read):
    planned = PlannedParallelism(PLAN)
    read(planned)
    assert planned.vertices_read == {"read"}


@pytest.mark.parametrize(
    "read",
    [
        list,
        dict,
        lambda planned: dict(**planned),
        lambda planned: sum(planned.values()),
        lambda planned: {**planned, "count": 1},
        lambda planned: planned == PLAN,
        repr,
        pickle.dumps,
    ],
    ids=["list", "dict", "keywords", "values", "copy", "equal", "repr", "pickle"],
)
def test_an_iteration_reads_all_vertices(read):
    planned = PlannedParallelism(PLAN)
    read(planned)
    assert planned.vertices_read == set(PLAN)


def test_counting_the_vertices_reads_none():
    planned = PlannedParallelism(PLAN)
    assert len(planned) == 2
    assert "absent" not in planned
    with pytest.raises(KeyError, match="absent"):
        planned["absent"]
    assert planned.vertices_read == set()


def test_a_pickled_parallelism_is_a_dict():
    copy = pickle.loads(pickle.dumps(PlannedParallelism(PLAN)))
    assert type(copy) is dict
    assert copy == PLAN
