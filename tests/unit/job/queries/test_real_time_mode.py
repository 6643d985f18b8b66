"""Queries in Real-Time Mode before their start: gangs, the slots of the plan, and partitions of shuffles, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.control.interfaces import MissingSlotsError
from airflow_adaptive.job.queries import real_time_mode
from airflow_adaptive.job.queries.real_time_mode import (
    GANG_SETTINGS,
    RealTimeMode,
    RealTimeModeError,
    WriterSettings,
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


class Session(dict[str, str]):
    """The configuration of a session and of its context."""

    @property
    def conf(self) -> Session:
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
def session() -> Session:
    return Session({real_time_mode.PROVIDER: "RocksDBStateStoreProvider"})


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch, state: State, session: Session) -> RealTimeMode:
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


def test_session_is_ready_for_real_time_mode(mode: RealTimeMode, session: Session) -> None:
    accept(mode, plan(3), counts=Writer())
    assert session[FORMAT] == "2"
    assert GANG_SETTINGS.items() <= session.items()
    assert session["spark.locality.wait"] == "0s"


def test_queries_in_another_mode_keep_the_session_and_the_plan(mode: RealTimeMode, session: Session) -> None:
    accept(mode, plan(1, partitions=5), counts=Writer(batch_ms=None))
    assert mode.gangs == {}
    assert FORMAT not in session
    assert mode.partitions("counts", plan(1, partitions=5)) == 5


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
    with pytest.raises(RealTimeModeError, match=r"queries \['other'\] are not in Real-Time Mode"):
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


def test_sink_that_spark_does_not_know_needs_the_setting_of_the_session(mode: RealTimeMode, session: Session) -> None:
    with pytest.raises(RealTimeModeError, match="the sink delta"):
        accept(mode, plan(8), counts=Writer(sink="delta"))
    session[real_time_mode.ALLOWLIST_CHECK] = "false"
    accept(mode, plan(8), counts=Writer(sink="delta"))
    assert mode.gangs == {"counts": 3}


@pytest.mark.parametrize(("shortest", "milliseconds"), [("6000ms", 6000), ("7s", 7000)])
def test_shortest_batch_is_a_setting_of_the_session(
    mode: RealTimeMode, session: Session, shortest: str, milliseconds: int
) -> None:
    session[real_time_mode.MIN_BATCH] = shortest
    with pytest.raises(RealTimeModeError, match=f"set realTime to {milliseconds} ms or more"):
        accept(mode, plan(8), counts=Writer())


def test_only_a_query_with_state_needs_the_state_store(mode: RealTimeMode, session: Session) -> None:
    session[real_time_mode.PROVIDER] = "HDFSBackedStateStoreProvider"
    accept(mode, plan(8), counts=Writer(plan=SHUFFLED))
    with pytest.raises(RealTimeModeError, match="RocksDB"):
        accept(mode, plan(8), counts=Writer())


def test_checkpoint_of_an_old_format_is_refused(mode: RealTimeMode, state: State) -> None:
    state.partitions, state.format = 4, 1
    with pytest.raises(RealTimeModeError, match="format"):
        accept(mode, plan(8), counts=Writer())
