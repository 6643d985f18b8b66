"""Queries in Real-Time Mode before their start: gangs, the slots of the plan, and partitions of shuffles, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.control.interfaces import MissingSlotsError
from airflow_adaptive.job.queries import real_time_mode
from airflow_adaptive.job.queries.real_time_mode import (
    GANG_SETTINGS,
    Gang,
    RealTimeMode,
    RealTimeModeError,
    Session,
    WriterSettings,
    require_real_time,
    shuffles_of,
)
from airflow_adaptive.job.state.repartition import FORMAT, RepartitionError

STATELESS = "*(1) Project [value]\n+- StreamingRelation kafka"

SHUFFLED = "Exchange RoundRobinPartitioning(7), REPARTITION_BY_COL, [plan_id=1]"

STATEFUL = """StateStoreSave [name#1], state info [ checkpoint = <unknown>, opId = 0, ver = 0, numPartitions = 7], 2
+- Exchange hashpartitioning(name#1, 7), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=54]"""


@dataclass
class Writer:
    """A query that was built."""

    plan: str = STATEFUL
    topics: tuple[int, ...] = (2,)
    batch_ms: int | None = 5000
    sink: str = "kafka"


@dataclass
class State:
    """The state in the checkpoints."""

    partitions: int | None = None
    fixed: bool = False
    format: int = 2
    checked: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    def state_partitions(self, checkpoint: str) -> int | None:
        return self.partitions

    def state_format(self, checkpoint: str) -> int | None:
        return None if self.partitions is None else self.format

    def check(self, checkpoint: str, partitions: int, writer: Any) -> None:
        self.checked.append(partitions)
        if self.fixed and partitions != self.partitions:
            raise RepartitionError("the state cannot change")


class Configuration(dict[str, str]):
    """The configuration of a session and of its context."""

    @property
    def conf(self) -> Configuration:
        return self

    @property
    def _jsc(self) -> Any:
        return SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: self))

    def set(self, name: str, value: str) -> None:
        self[name] = value


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def session() -> Configuration:
    return Configuration({real_time_mode.PROVIDER: "RocksDBStateStoreProvider"})


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch, state: State, session: Configuration) -> RealTimeMode:
    def settings(_: Any, writer: Any) -> WriterSettings:
        return WriterSettings(batch_ms=writer.batch_ms, sink=writer.sink, output_mode="Update", sources=("kafka",))

    def topics(_: Any, __: int, count: int, *___: Any) -> Any:
        return SimpleNamespace(count_partitions=lambda: count, close=lambda: state.closed.append(count))

    monkeypatch.setattr(real_time_mode, "read_settings", settings)
    monkeypatch.setattr(real_time_mode, "physical_plan", lambda _, writer: writer.plan)
    monkeypatch.setattr(real_time_mode, "source_relations", lambda _, writer: writer.topics)
    monkeypatch.setattr(real_time_mode, "KafkaTopics", topics)
    milliseconds = {"5000": 5000, "6000ms": 6000, "7s": 7000}.__getitem__
    monkeypatch.setattr(real_time_mode, "spark_class", lambda *_: SimpleNamespace(timeStringAsMs=milliseconds))
    return RealTimeMode(session, "/checkpoints/{}".format, state)  # type: ignore[arg-type]


def plan(slots: int, partitions: int = 8, pools: Mapping[str, int] | None = None, **more: Any) -> DriverPlan:
    return DriverPlan(
        parallelism={"job": slots},
        executors=slots,
        state_partitions={"default": partitions},
        pool_weights=pools or {},
        repartition=True,
        **more,
    )


def accept(mode: RealTimeMode, on: DriverPlan, **writers: Writer) -> None:
    mode.accept(writers, on)  # type: ignore[arg-type]


def test_gang_has_the_partitions_of_all_topics_and_one_of_each_shuffle(mode: RealTimeMode, state: State) -> None:
    accept(mode, plan(9), counts=Writer(topics=(2, 3)))
    assert mode.gangs == {"counts": 6}
    assert state.closed == [2, 3]


def test_session_is_ready_for_real_time_mode(mode: RealTimeMode, session: Configuration) -> None:
    accept(mode, plan(3), counts=Writer())
    assert session[FORMAT] == "2"
    assert GANG_SETTINGS.items() <= session.items()
    assert session["spark.locality.wait"] == "0s"


def test_queries_in_another_mode_keep_the_session_and_the_plan(mode: RealTimeMode, session: Configuration) -> None:
    accept(mode, plan(1, partitions=5), counts=Writer(batch_ms=None))
    assert mode.gangs == {}
    assert FORMAT not in session
    assert mode.partitions("counts", plan(1, partitions=5)) == 5


def test_gangs_are_reported_when_all_are_known(mode: RealTimeMode, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Mapping[str, int]] = []
    inputs = mode._inputs

    def reporting(writer: Any, name: str) -> int:
        reported.append(mode.gangs)
        return inputs(writer, name)

    monkeypatch.setattr(mode, "_inputs", reporting)
    accept(mode, plan(9), counts=Writer(), delays=Writer())
    assert reported == [{}, {}]
    assert len(mode.gangs) == 2


def test_queries_that_were_built_again_replace_the_earlier_gangs(mode: RealTimeMode) -> None:
    accept(mode, plan(3), counts=Writer())
    accept(mode, plan(3), counts=Writer(batch_ms=None))
    assert mode.gangs == {}


@pytest.mark.parametrize(("slots", "partitions"), [(3, 1), (4, 2), (6, 4), (20, 8)])
def test_state_follows_the_slots_up_to_the_maximum_parallelism(mode: RealTimeMode, slots: int, partitions: int) -> None:
    accept(mode, plan(slots), counts=Writer())
    assert mode.partitions("counts", plan(slots)) == partitions


def test_shuffle_without_state_uses_all_slots_that_are_left(mode: RealTimeMode) -> None:
    accept(mode, plan(20), counts=Writer(plan=SHUFFLED))
    assert mode.partitions("counts", plan(20, partitions=8)) == 18


def test_missing_slots_name_the_gang_and_the_plan(mode: RealTimeMode) -> None:
    with pytest.raises(MissingSlotsError, match=r"query 'counts' needs 3 slot\(s\), and the plan has 2"):
        accept(mode, plan(2, most_slots=3), counts=Writer())
    assert mode.gangs == {"counts": 3}


def test_gang_above_the_bounds_is_final_and_names_the_necessary_bound(mode: RealTimeMode) -> None:
    with pytest.raises(RealTimeModeError, match=r"permit 2: declare an upper bound of at least 3"):
        accept(mode, plan(2, most_slots=2), counts=Writer())


def test_query_beside_real_time_mode_is_refused(mode: RealTimeMode) -> None:
    with pytest.raises(RealTimeModeError, match=r"queries \['other'\] are not in .* run them in a job of their own"):
        accept(mode, plan(9), counts=Writer(), other=Writer(batch_ms=None))


@pytest.mark.parametrize(("kept", "slots"), [(1, 3), (4, 6)])
def test_state_that_cannot_change_determines_the_gang(mode: RealTimeMode, state: State, kept: int, slots: int) -> None:
    state.partitions, state.fixed = kept, True
    accept(mode, plan(8), counts=Writer())
    assert mode.gangs == {"counts": slots}
    assert mode.partitions("counts", plan(8)) == kept


def test_state_that_can_change_follows_the_plan(mode: RealTimeMode, state: State) -> None:
    state.partitions = 4
    accept(mode, plan(3), counts=Writer())
    assert mode.gangs == {"counts": 3}


def test_queries_share_the_slots_that_their_gangs_leave(mode: RealTimeMode) -> None:
    accept(mode, plan(10), a=Writer(), b=Writer(topics=(3,)))
    assert mode.gangs == {"a": 3, "b": 4}
    assert [mode.partitions(name, plan(10)) for name in "ab"] == [2, 2]


def test_query_that_cannot_use_more_slots_leaves_them_to_the_others(mode: RealTimeMode) -> None:
    accept(mode, plan(6), counts=Writer(), copies=Writer(plan=STATELESS))
    assert mode.gangs == {"counts": 3, "copies": 2}
    assert mode.partitions("counts", plan(6)) == 2


def test_query_with_a_slot_sharing_group_has_only_its_slots(mode: RealTimeMode) -> None:
    on = plan(9, pools={"a": 5, "rest": 4})
    accept(mode, on, a=Writer(), b=Writer(topics=(3,)))
    assert [mode.partitions(name, on) for name in "ab"] == [3, 1]


@pytest.mark.parametrize("pools", [{"a": 2, "rest": 9}, {"a": 8, "rest": 3}])
def test_slots_of_another_group_do_not_help(mode: RealTimeMode, pools: dict[str, int]) -> None:
    with pytest.raises(MissingSlotsError):
        accept(mode, plan(11, pools=pools), a=Writer(), b=Writer(topics=(3,)))


def test_state_stays_if_the_plan_permits_no_repartition(mode: RealTimeMode, state: State) -> None:
    state.partitions = 4
    accept(mode, replace(plan(8), repartition=False), counts=Writer())
    assert mode.gangs == {"counts": 6}
    assert state.checked == []


def test_query_without_state_in_its_checkpoint_is_not_checked(mode: RealTimeMode, state: State) -> None:
    accept(mode, plan(8), counts=Writer(), shuffled=Writer(plan=SHUFFLED))
    assert state.checked == []


def test_sink_that_spark_does_not_know_needs_the_setting_of_the_session(
    mode: RealTimeMode, session: Configuration
) -> None:
    with pytest.raises(RealTimeModeError, match="the sink delta"):
        accept(mode, plan(8), counts=Writer(sink="delta"))
    session[real_time_mode.ALLOWLIST_CHECK] = "false"
    accept(mode, plan(8), counts=Writer(sink="delta"))
    assert mode.gangs == {"counts": 3}


@pytest.mark.parametrize(("shortest", "milliseconds"), [("6000ms", 6000), ("7s", 7000)])
def test_shortest_batch_is_a_setting_of_the_session(
    mode: RealTimeMode, session: Configuration, shortest: str, milliseconds: int
) -> None:
    session[real_time_mode.MIN_BATCH] = shortest
    with pytest.raises(RealTimeModeError, match=f"set realTime to {milliseconds} ms or more"):
        accept(mode, plan(8), counts=Writer())


def test_only_a_query_with_state_needs_the_state_store(mode: RealTimeMode, session: Configuration) -> None:
    session[real_time_mode.PROVIDER] = "HDFSBackedStateStoreProvider"
    accept(mode, plan(8), counts=Writer(plan=SHUFFLED))
    with pytest.raises(RealTimeModeError, match="remove spark.sql.streaming.stateStore.providerClass"):
        accept(mode, plan(8), counts=Writer())


def test_checkpoint_of_an_old_format_is_refused(mode: RealTimeMode, state: State) -> None:
    state.partitions, state.format = 4, 1
    with pytest.raises(RealTimeModeError, match="state-store format 1.*give the query another name"):
        accept(mode, plan(8), counts=Writer())


# ---- the gang of a query in Real-Time Mode: its slots, and the partitions for the slots of a plan -------------------


AGGREGATION = """
+- StateStoreSave [name#1], state info [ checkpoint = <unknown>, opId = 0, ver = 0, numPartitions = 7], 2
   +- *(2) HashAggregate(keys=[name#1], functions=[merge_count(1)])
      +- Exchange hashpartitioning(name#1, other#2, 7), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=54]
         +- *(1) HashAggregate(keys=[name#1], functions=[partial_count(1)])
"""


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("*(1) Project\n+- StreamingRelation kafka", (0, 0)),
        (AGGREGATION, (0, 1)),
        ("Exchange RoundRobinPartitioning(5), REPARTITION_BY_NUM, [plan_id=1]", (5, 0)),
        ("Exchange hashpartitioning(name#1, 3), REPARTITION_BY_NUM, [plan_id=1]", (3, 0)),
        ("Exchange hashpartitioning(name#1, 3), REPARTITION_BY_COL, [plan_id=1]", (0, 1)),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1]", (1, 0)),
        ("BroadcastExchange HashedRelationBroadcastMode(List(input[0, int, false]))", (0, 0)),
        (f"Exchange RoundRobinPartitioning(5), REPARTITION_BY_NUM, [plan_id=1]\n{AGGREGATION}", (5, 1)),
    ],
)
def test_shuffles_of_a_plan(plan: str, expected: tuple[int, int]) -> None:
    assert shuffles_of(plan) == expected


def test_gang_has_a_slot_for_each_task_of_all_stages() -> None:
    gang = Gang(inputs=2, fixed=5, shuffles=2)
    assert gang.minimum == 9
    assert gang.slots(3) == 13


def test_gang_without_shuffles_is_as_large_as_its_input() -> None:
    assert Gang(inputs=4).minimum == 4
    assert Gang(inputs=4).partitions(9, 8) == 8


@given(st.integers(1, 50), st.integers(0, 10), st.integers(0, 3), st.integers(1, 200), st.integers(1, 64))
def test_gang_fits_into_every_number_of_slots_from_its_minimum(
    inputs: int, fixed: int, shuffles: int, slots: int, most: int
) -> None:
    gang = Gang(inputs=inputs, fixed=fixed, shuffles=shuffles)
    partitions = gang.partitions(slots, most)
    assert 1 <= partitions <= most
    if slots >= gang.minimum:
        assert gang.slots(partitions) <= slots


# ---- what Real-Time Mode requires: one error names all violations with their remedies -------------------------------


SESSION = Session(checks_sinks=True, min_batch_ms=5000, provider="org.apache.spark.RocksDBStateStoreProvider")
FACTS = WriterSettings(batch_ms=5000, sink="kafka", output_mode="Update", sources=("kafka",), is_stateful=True)


def violation(facts: WriterSettings, session: Session = SESSION) -> str:
    with pytest.raises(RealTimeModeError) as raised:
        require_real_time({"q": facts}, [], session)
    return str(raised.value)


@pytest.mark.parametrize("sink", ["kafka", "console", "foreach"])
@pytest.mark.parametrize("checkpoint_format", [None, 2])
def test_queries_that_can_run(sink: str, checkpoint_format: int | None) -> None:
    require_real_time({"q": replace(FACTS, sink=sink, checkpoint_format=checkpoint_format)}, [], SESSION)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sink": "parquet"}, "the sink parquet is not supported: use kafka, console, foreach"),
        ({"sink": "foreachBatch"}, "the sink foreachBatch is not supported"),
        ({"output_mode": "Append"}, 'the output mode Append is not supported: add .outputMode("update")'),
        ({"sources": ("kafka", "rate")}, "the source rate is not supported: use kafka"),
        (
            {"source_options": ("subscribe", "maxoffsetspertrigger")},
            "the option maxOffsetsPerTrigger of a source is not supported: remove the option",
        ),
    ],
)
def test_settings_of_the_script(changes: dict[str, Any], expected: str) -> None:
    text = violation(replace(FACTS, **changes))
    assert text.startswith("Real-Time Mode cannot start: query 'q': ")
    assert expected in text


def test_all_violations_are_in_one_error() -> None:
    text = violation(replace(FACTS, sink="parquet", output_mode="Append"))
    assert "sink" in text
    assert "output mode" in text
