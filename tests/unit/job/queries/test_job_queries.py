"""The queries of a job: built, checked, started, ended and followed together. `test_batch_boundary` covers the boundaries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.control.interfaces import QueryStillRunsError
from airflow_adaptive.job.queries import job_query
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.job_query import JobQuery
from airflow_adaptive.job.queries.real_time_mode import RealTimeMode
from airflow_adaptive.job.queries.warm_up import MAX_PLAN
from airflow_adaptive.job.queries.writers import AdaptiveJobError
from airflow_adaptive.job.state.repartition import RepartitionError
from tests.support.driver.fake_spark import Pool, Query, Spark, Stream
from tests.unit.job.queries.test_progress import progress

JOB = "flights"


class StateRepartitioner:
    """Notes what is wanted of the checkpoints."""

    def __init__(self) -> None:
        self.refuses = self.fails = self.is_undone = False
        self.checked: list[tuple[str, int]] = []
        self.ensured: list[tuple[str, int | None]] = []

    def state_partitions(self, checkpoint: str) -> int | None:
        raise AssertionError("no query is in Real-Time Mode")

    def state_format(self, checkpoint: str) -> int | None:
        raise AssertionError("no query is in Real-Time Mode")

    def check(self, checkpoint: str, partitions: int, writer: Any) -> None:
        self.checked.append((checkpoint, partitions))
        if self.refuses:
            raise RepartitionError(f"{checkpoint}: not {partitions}")

    def ensure(self, checkpoint: str, partitions: int | None, writer: Any) -> None:
        assert checkpoint.endswith(writer.given["queryName"])
        self.ensured.append((checkpoint, partitions))
        if self.fails or (self.is_undone and partitions is not None):
            raise RepartitionError(f"{checkpoint}: interrupted")


class Job:
    """A script, and the queries that are made of it."""

    def __init__(self, *names: str) -> None:
        self.spark = Spark()
        self.names = names
        self.returns: Callable[[Mapping[str, int]], object] = lambda _: [
            Stream(name, self.spark) for name in self.names
        ]
        self.repartition = StateRepartitioner()
        session: Any = self.spark
        self.checked: list[str] = []
        self.queries = JobQueries(
            session,
            self.departures,
            job=JOB,
            checkpoint="at/{}".format,
            repartition=self.repartition,
            require_checkpoint=self.require_checkpoint,
        )

    def require_checkpoint(self, _: Any, writer: Any, checkpoint: str) -> None:
        assert isinstance(writer, Stream)
        self.checked.append(checkpoint)

    def departures(self, spark: object, parallelism: Mapping[str, int]) -> Any:
        assert spark is self.spark
        return self.returns(parallelism)

    def start(self, wanted: DriverPlan) -> None:
        writers: Any = self.queries.build(wanted)
        if not self.queries.is_prepared(writers, wanted):
            self.queries.prepare(writers, wanted)
        self.queries.start(writers, wanted)

    @property
    def runs(self) -> list[Query]:
        """Those that were started last, in their order."""
        return self.spark.queries[-len(self.names) :]

    @property
    def pools(self) -> dict[str, Pool]:
        return self.spark.root.by_name


def plan(query_version: int = 1, **changes: Any) -> DriverPlan:
    given = {"parallelism": {"read": 2}, "executors": 1, "state_partitions": {"a": 4, "b": 8}, **changes}
    return DriverPlan(query_version=query_version, **given)


@pytest.fixture
def two() -> Job:
    return Job("a", "b")


@pytest.fixture
def running(two: Job) -> Job:
    two.start(plan())
    return two


# ---- how they are made ----------------------------------------------------------------------------------------------


def test_nothing_runs_before_the_first_start(two: Job) -> None:
    assert two.queries.plan is None
    assert two.queries.vertices_read is None
    assert not two.queries.can_adopt(plan())
    assert not two.queries.has_ended()
    assert not two.queries.wait_for_first_trigger(0)
    assert two.queries.end(1, lambda _: None)
    assert two.queries.reports() == ()
    assert two.queries.stateful_run() is None
    assert two.queries.parallelism() == {}


def test_each_query_has_its_own_checkpoint_and_state_partitions(running: Job) -> None:
    assert [(run.name, run.checkpoint, run.partitions) for run in running.runs] == [
        ("a", "at/a", "4"),
        ("b", "at/b", "8"),
    ]


def test_a_query_without_a_group_has_the_maximum_of_state_partitions() -> None:
    job = Job("c")
    job.start(plan())
    assert job.runs[0].partitions == "8"


def test_vertices_that_the_function_reads_are_known_also_when_it_reads_them_later(two: Job) -> None:
    mappings: list[Mapping[str, int]] = []

    def remembers(parallelism: Mapping[str, int]) -> object:
        mappings.append(parallelism)
        return [Stream("a", two.spark), Stream("b", two.spark)]

    two.returns = remembers
    two.start(plan(parallelism={"write": 1, "read": 1}))
    assert not two.queries.vertices_read
    assert mappings[0]["write"] == mappings[0]["read"]
    assert two.queries.vertices_read == ("read", "write")


def test_queries_run_on_a_plan_that_they_were_built_for(running: Job) -> None:
    assert running.queries.can_adopt(plan(1, executors=3))
    assert not running.queries.can_adopt(plan(2))
    running.queries.close()
    assert not running.queries.can_adopt(plan(1))


def test_a_plan_of_other_executors_is_adopted_without_a_restart(running: Job) -> None:
    running.queries.adopt(plan(1, executors=3, parallelism={"read": 6}))
    assert running.queries.parallelism() == {"read": 6}
    assert len(running.spark.queries) == 2


def test_other_queries_are_rejected_and_the_running_ones_continue(running: Job) -> None:
    running.names = ("a", "c")
    with pytest.raises(AdaptiveJobError, match="'b' is missing, 'c' is new"):
        running.queries.build(plan(2))
    assert [query.name for query in running.spark.active] == ["a", "b"]
    assert running.queries.plan == plan(1)


def test_a_batch_instead_of_queries_is_rejected(running: Job) -> None:
    running.returns = lambda _: DataFrameWriter.__new__(DataFrameWriter)
    with pytest.raises(AdaptiveJobError, match="'a' is missing, 'b' is missing"):
        running.queries.build(plan(2))


def test_a_function_that_exits_is_rejected_and_the_queries_continue(running: Job) -> None:
    def gives_up(_: Mapping[str, int]) -> object:
        sys.exit("no such airport")

    running.returns = gives_up
    with pytest.raises(AdaptiveJobError, match=r"departures\(\) called sys.exit\('no such airport'\): return df.write"):
        running.queries.build(plan(2))
    assert running.queries.plan is not None


@pytest.mark.parametrize("method", ["start", "toTable"])
def test_a_function_that_starts_a_query_is_rejected_while_the_queries_continue(running: Job, method: str) -> None:
    original = getattr(DataStreamWriter, method)

    def starts(_: Mapping[str, int]) -> object:
        return getattr(DataStreamWriter.__new__(DataStreamWriter), method)("flights")

    running.returns = starts
    with pytest.raises(
        AdaptiveJobError, match=rf"departures\(\) called {method}\(\): return the writer, do not call {method}\(\)"
    ):
        running.queries.build(plan(2))
    assert [query.name for query in running.spark.active] == ["a", "b"]
    assert getattr(DataStreamWriter, method) is original


def test_a_rejected_build_does_not_change_the_vertices_read(running: Job) -> None:
    def reads_and_raises(parallelism: Mapping[str, int]) -> object:
        raise LookupError(parallelism["read"])

    running.returns = reads_and_raises
    with pytest.raises(LookupError):
        running.queries.build(plan(2))
    assert running.queries.vertices_read == ()


# ---- state ----------------------------------------------------------------------------------------------------------


def test_state_is_checked_while_queries_run_if_its_partitions_change(running: Job) -> None:
    for run, partitions in zip(running.runs, (4, 8), strict=True):
        run.progress.append(progress(0, partitions=partitions))
    running.queries.reports()
    running.queries.build(plan(2, state_partitions={"a": 4, "b": 16}))
    assert running.repartition.checked == []
    repartitioned = plan(2, state_partitions={"a": 4, "b": 16}, repartition=True)
    writers: Any = running.queries.build(repartitioned)
    running.queries.close()
    running.queries.prepare(writers, repartitioned)
    assert running.repartition.checked == [("at/b", 16)]  # not once more between two queries
    assert running.repartition.ensured[-1] == ("at/b", 16)


def test_state_that_cannot_be_repartitioned_is_rejected_before_any_query_is_stopped(running: Job) -> None:
    running.repartition.refuses = True
    with pytest.raises(RepartitionError):
        running.queries.build(plan(2, repartition=True))
    assert len(running.spark.active) == 2


def test_sources_are_checked_before_the_first_run_of_a_driver(two: Job) -> None:
    two.start(plan())
    two.start(plan(2))
    assert two.checked == ["at/a", "at/b"]


@pytest.mark.parametrize(("repartition", "ensured"), [(False, [None, None]), (True, [4, 8])])
def test_state_is_prepared_before_the_start_whether_or_not_it_is_repartitioned(
    two: Job, repartition: bool, ensured: list[int | None]
) -> None:
    two.start(plan(repartition=repartition))
    assert two.repartition.ensured == [("at/a", ensured[0]), ("at/b", ensured[1])]


@pytest.mark.parametrize(
    ("then", "ensured"),
    [
        ({}, []),
        ({"parallelism": {"read": 1}}, []),
        ({"state_partitions": {"a": 4, "b": 2}}, [("at/a", 4), ("at/b", 2)]),
        ({"repartition": False}, [("at/a", None), ("at/b", None)]),
    ],
)
def test_prepared_state_is_prepared_again_only_for_other_partitions(
    two: Job, then: dict[str, Any], ensured: list[tuple[str, int | None]]
) -> None:
    two.start(plan(repartition=True))
    two.queries.halt()
    two.repartition.ensured.clear()
    two.start(plan(2, **{"repartition": True, **then}))
    assert two.repartition.ensured == ensured


def test_state_is_prepared_again_after_a_failed_repartition(two: Job) -> None:
    two.start(plan())
    two.queries.halt()
    two.repartition.fails = True
    with pytest.raises(RepartitionError):
        two.start(plan(2, repartition=True))
    two.repartition.fails = False
    two.repartition.ensured.clear()
    two.start(plan(3))
    assert two.repartition.ensured == [("at/a", None), ("at/b", None)]


def test_new_driver_keeps_the_partitions_of_state_that_cannot_be_repartitioned(two: Job) -> None:
    two.repartition.refuses = True
    two.start(plan(repartition=True))
    assert two.repartition.ensured == [("at/a", None), ("at/b", None)]
    assert len(two.spark.active) == 2


def test_query_keeps_its_partitions_after_a_repartition_that_has_failed_and_was_undone(two: Job) -> None:
    two.repartition.is_undone = True
    two.start(plan(repartition=True))
    assert two.repartition.ensured == [("at/a", 4), ("at/a", None), ("at/b", 8), ("at/b", None)]
    assert len(two.spark.active) == 2


# ---- how they run ---------------------------------------------------------------------------------------------------


def test_no_query_runs_if_one_cannot_be_started(two: Job) -> None:
    two.returns = lambda _: [Stream("a", two.spark), Stream("b", error=ValueError("no sink"))]
    with pytest.raises(ValueError, match="no sink"):
        two.start(plan())
    assert [query.stopped for query in two.spark.queries] == [True]
    assert two.queries.plan is None
    assert not two.queries.has_ended()


def test_job_ends_when_all_queries_have_ended(running: Job) -> None:
    running.runs[0].over()
    assert not running.queries.has_ended()
    assert [report.active for report in running.queries.reports()] == [False, True]
    running.runs[1].over()
    assert running.queries.has_ended()
    assert running.queries.failure() is None
    running.queries.close()
    assert not running.queries.has_ended()


def test_job_ends_when_one_query_has_failed_and_reports_it(running: Job) -> None:
    running.runs[1].fails()
    assert running.queries.has_ended()
    failure = running.queries.failure()
    assert failure is not None
    assert (failure.error_class, failure.query) == ("DIVIDE_BY_ZERO", "b")


def test_counts_continue_when_queries_are_started_again(running: Job) -> None:
    running.runs[0].progress.append(progress(0))
    running.queries.reports()
    running.queries.halt()
    running.start(plan(2))
    running.runs[0].progress.append(progress(1))
    assert [(report.name, report.committed) for report in running.queries.reports()] == [("a", 2), ("b", 0)]


@pytest.mark.parametrize(
    ("columns", "plan_lines"),
    [
        (["id", "concat(id, secret)"], ("StreamingRelation", "output id bigint", "output (unnamed) bigint")),
        (["wide"] * MAX_PLAN, ("StreamingRelation", *["output wide bigint"] * (MAX_PLAN - 2), "...")),
        (["x" * 200] * MAX_PLAN, ()),
    ],
)
def test_query_reports_a_bounded_plan_without_literals(columns: list[str], plan_lines: tuple[str, ...]) -> None:
    job = Job("a")
    job.returns = lambda _: [Stream("a", job.spark, columns=columns)]
    job.start(plan())
    assert job.queries.reports()[0].plan == plan_lines


def test_the_stateful_run_is_the_one_with_the_most_partitions(running: Job) -> None:
    assert running.queries.stateful_run() is None
    for run, partitions in zip(running.runs, (4, 8), strict=True):
        run.progress.append(progress(0, partitions=partitions))
    found = running.queries.stateful_run()
    assert found is not None
    assert (found.run_id, found.state_partitions) == (running.runs[1].runId, 8)
    running.runs[1].over()
    found = running.queries.stateful_run()
    assert found is not None
    assert found.state_partitions == 4


# ---- effective parallelism ------------------------------------------------------------------------------------------


def capped(job: Job, parallelism: dict[str, int], *partitions: int) -> dict[str, int]:
    """The effective parallelism if the checkpoints have these partitions; the plan has 4 and 8."""
    job.start(plan(parallelism=parallelism))
    for run, count in zip(job.runs, partitions, strict=True):
        run.progress.append(progress(0, partitions=count))
    job.queries.reports()
    return job.queries.parallelism()


@pytest.mark.parametrize(
    ("names", "parallelism", "partitions", "effective"),
    [
        (("a",), {"read": 6, "write": 1}, (2,), {"read": 2, "write": 1}),
        (("a", "b"), {"a": 6, "b": 6, "read": 6}, (2, 8), {"a": 2, "b": 6, "read": 6}),
        (("a", "b"), {"read": 6}, (2, 3), {"read": 3}),
    ],
    ids=["a vertex of the only query", "a vertex with the name of its query", "a vertex of any query"],
)
def test_a_checkpoint_with_fewer_partitions_than_planned_caps_the_vertices_of_its_query(
    names: tuple[str, ...], parallelism: dict[str, int], partitions: tuple[int, ...], effective: dict[str, int]
) -> None:
    assert capped(Job(*names), parallelism, *partitions) == effective


def test_adaptive_execution_does_not_coalesce_the_partitions_of_the_plan():
    assert Job("a").spark.settings["spark.sql.adaptive.coalescePartitions.enabled"] == "false"


# ---- requests of the driver loop ------------------------------------------------------------------------------------


def no_time_passes(_: float) -> None: ...


@pytest.mark.parametrize("is_in_time", [True, False])
def test_function_is_called_while_no_query_runs_a_batch(
    running: Job, monkeypatch: pytest.MonkeyPatch, is_in_time: bool
) -> None:
    acts: list[str] = []

    def act_between_batches(
        queries: list[JobQuery], timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]
    ) -> bool:
        assert [query.name for query in queries] == ["a", "b"]
        assert (timeout_s, pause) == (7.0, no_time_passes)
        act()
        return is_in_time

    monkeypatch.setattr(job_query, "boundaries", list)
    monkeypatch.setattr(job_query, "act_between_batches", act_between_batches)
    assert running.queries.act_between_batches(7.0, no_time_passes, lambda: acts.append("released")) is is_in_time
    assert acts == ["released"]


@pytest.mark.parametrize("begun", [{"a", "b"}, {"a"}])
def test_first_triggers_of_all_queries_are_awaited(
    running: Job, monkeypatch: pytest.MonkeyPatch, begun: set[str]
) -> None:
    def wait_for_first_trigger(query: JobQuery, timeout_s: float) -> bool:
        assert 6.0 < timeout_s <= 7.0
        return query.name in begun

    monkeypatch.setattr(JobQuery, "wait_for_first_trigger", wait_for_first_trigger)
    assert running.queries.wait_for_first_trigger(7.0) is (begun == {"a", "b"})


def test_gangs_depend_on_the_parallelism_of_all_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build function reads no parallelism. The driver computes the partitions from the slots of the plan."""
    job = Job("a")
    job.start(plan(parallelism={"read": 2, "count": 3}))
    assert (job.queries.gangs, job.queries.vertices_read) == ({}, ())
    monkeypatch.setattr(RealTimeMode, "gangs", {"a": 5})
    job.queries.build(plan(2, parallelism={"read": 2, "count": 3}))
    assert (job.queries.gangs, job.queries.vertices_read) == ({"a": 5}, ("count", "read"))


# ---- immediate stops ------------------------------------------------------------------------------------------------


def not_in_time(*_: Query) -> None:
    raise Py4JError("TimeoutException")


def test_halt_also_stops_queries_that_the_script_started(running: Job) -> None:
    Query(running.spark, "mine")
    assert running.queries.halt()
    assert running.spark.active == []
    assert running.queries.plan is None


def test_halt_cancels_all_jobs_and_stops_the_other_queries_when_one_does_not_stop(
    running: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is fenced, and the thread of the first query does not end in time, so that its stop fails."""
    first, second = running.runs
    monkeypatch.setattr(first._jsq, "stop", not_in_time)
    assert not running.queries.halt()
    assert running.spark.cancellations == 1
    assert (first.stopped, second.stopped) == (False, True)
    assert running.queries.plan is None


def test_start_that_fails_while_another_query_continues_is_an_error_of_the_driver(
    two: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second query of a job cannot be started, and the first one does not stop: it must not run without a lease."""
    monkeypatch.setattr(Query, "stop", not_in_time)
    two.returns = lambda _: [Stream("a", two.spark), Stream("b", error=ValueError("no sink"))]
    with pytest.raises(QueryStillRunsError, match="'a'") as raised:
        two.start(plan())
    assert isinstance(raised.value.__cause__, ValueError)


# ---- the share of each query in the slots: a FAIR pool of its name, whose weight is the number of slots of its group --


def test_a_single_query_stays_in_the_default_pool() -> None:
    job = Job("a")
    job.start(plan(pool_weights={"a": 3}))
    assert (job.runs[0].pool, job.pools) == ("default", {})


def test_weights_of_the_pools_are_the_slots_of_the_groups_and_at_least_1(two: Job) -> None:
    two.start(plan(pool_weights={"a": 3, "b": 0}))
    assert [run.pool for run in two.runs] == ["a", "b"]
    assert {name: pool.settings for name, pool in two.pools.items()} == {"a": ("FAIR", 0, 3), "b": ("FAIR", 0, 1)}
    assert two.spark.local["spark.scheduler.pool"] == "default", "other jobs of this thread use the default pool"


def test_a_new_weight_applies_to_new_stages_while_old_ones_end(two: Job) -> None:
    two.start(plan(pool_weights={"a": 1, "b": 2}))
    old = two.pools["a"]
    old.busy = True
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert {name: pool.weight() for name, pool in two.pools.items()} == {"a": 3, "b": 2}
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert old in two.spark.root.pools
    old.busy = False
    two.queries.adopt(plan(pool_weights={"a": 3, "b": 2}))
    assert two.spark.root.pools == [two.pools["b"], two.pools["a"]]
