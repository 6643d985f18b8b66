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


def batch() -> DataFrameWriter:
    return DataFrameWriter.__new__(DataFrameWriter)


def test_a_single_writer_is_accepted_as_it_is():
    writer, saved = Stream(), batch()
    assert require_writers(writer, "departures", "flights") == {"flights": writer}
    assert require_writers(saved, "departures", "flights") is saved


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (Stream("hourly"), ["hourly"]),
        ([Stream("b"), Stream("a")], ["b", "a"]),
        ((Stream("b"), Stream("a")), ["b", "a"]),
        ([Stream()], ["flights"]),
    ],
)
def test_queries_keep_their_names_and_their_order(returned: object, expected: list[str]):
    assert names(returned) == expected


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            None,
            "departures() returned NoneType: return df.writeStream... of a streaming DataFrame, not started, "
            "or a list of these, or df.write... of a batch, not saved",
        ),
        ([], "departures() returned no query: return df.writeStream..."),
        (StreamingQuery.__new__(StreamingQuery), "departures() returned StreamingQuery: return"),
        ([Stream("a"), batch(), None], "departures() returned DataFrameWriter, NoneType in a list: return"),
        (
            [Stream(), Stream("a"), Stream()],
            "departures() returned queries without a name (number 1, 3 of 3): add .queryName(...) to each query, "
            "because the name identifies its checkpoint",
        ),
        (
            [Stream("a"), Stream("b"), Stream("a")],
            "departures() returned several queries of the name 'a': use a different .queryName(...) for each",
        ),
    ],
    ids=["nothing", "an empty list", "a started query", "a batch among queries", "no names", "one name twice"],
)
def test_what_cannot_run_is_refused_with_the_remedy(returned: object, message: str):
    assert refusal(returned).startswith(message)


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
