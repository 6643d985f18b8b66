"""Limits, to the last unit, and the words in which more is refused."""

import re
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive.job.protocol.failures import BUILD_FUNCTION_ERROR
from airflow_adaptive.scheduler.allocator.load_balancing import LoadBalanceMode, WorkerSlots, spread
from airflow_adaptive.scheduler.errors import JobGraphError, RequirementsError
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartRecord,
    backoff,
    notify,
)
from airflow_adaptive.scheduler.policies.transition_manager import (
    CooldownExtension,
    Phase,
    Resources,
    TransitionManager,
)
from airflow_adaptive.scheduler.requirements import ParallelismRange, accept
from airflow_adaptive.testing.scenario import START

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)
NO_JITTER = 0.5

Strategy = type[FixedDelay | FailureRate | ExponentialDelay]


def exactly(words: str) -> str:
    """A pattern that fits these words only."""
    return f"^{re.escape(words)}$"


# ---- restart strategies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "name", "least", "less", "words"),
    [
        (FixedDelay, "attempts", 0, -1, "Maximum number of restart attempts must be at least 0."),
        (FixedDelay, "delay", NOTHING, -MS, "Backoff time between restart attempts must be at least 0 ms."),
        (
            *(FailureRate, "max_failures_per_interval", 1, 0),
            "Maximum number of restart attempts per time unit must be greater than 0.",
        ),
        (FailureRate, "failure_rate_interval", MS, NOTHING, "Failures interval must be greater than 0 ms."),
        (FailureRate, "delay", NOTHING, -MS, "Backoff time must be at least 0 ms."),
        (ExponentialDelay, "initial_backoff", MS, NOTHING, "Initial backoff must be at least 1."),
        (ExponentialDelay, "backoff_multiplier", 1.001, 1, "Backoff multiplier must be greater than 1."),
        (
            *(ExponentialDelay, "reset_backoff_threshold", MS, NOTHING),
            "Threshold duration for exponential backoff reset must be at least 1.",
        ),
        (ExponentialDelay, "jitter_factor", 0, -0.01, "Jitter factor must be >= 0 and <= 1."),
        (ExponentialDelay, "jitter_factor", 1, 1.01, "Jitter factor must be >= 0 and <= 1."),
        (
            *(ExponentialDelay, "attempts_before_reset_backoff", 1, 0),
            "The attemptsBeforeResetBackoff must be at least 1.",
        ),
    ],
)
def test_parameter_of_a_restart_strategy_has_a_limit(strategy: Strategy, name: str, least: Any, less: Any, words: str):
    assert getattr(strategy(**{name: least}), name) == least
    with pytest.raises(ValueError, match=exactly(words)):
        strategy(**{name: less})


def test_largest_backoff_is_at_least_a_millisecond_and_no_less_than_the_first():
    assert ExponentialDelay(initial_backoff=MS, max_backoff=MS).max_backoff == MS
    with pytest.raises(ValueError, match=exactly("Maximum backoff must be at least 1.")):
        ExponentialDelay(initial_backoff=MS, max_backoff=NOTHING)
    with pytest.raises(ValueError, match=exactly("Initial backoff cannot be higher than maximum backoff.")):
        ExponentialDelay(initial_backoff=2 * MS, max_backoff=MS)


@pytest.mark.parametrize(("attempts", "expected"), [(1, MS), (5, 2 * MS)])
def test_backoff_is_whole_milliseconds_as_in_flink(attempts: int, expected: timedelta):
    strategy = ExponentialDelay(initial_backoff=1.5 * MS, max_backoff=2.5 * MS, jitter_factor=0)
    record, now = RestartRecord(), START
    for _ in range(attempts):
        now += SECOND
        record = notify(strategy, record, now, NO_JITTER)
    assert backoff(strategy, record, now) == expected


# ---- the transition manager -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("max_trigger_delay", "Max trigger delay must not be negative"),
        ("stabilization", "Resource stabilization timeout must not be negative"),
    ],
)
def test_duration_of_a_transition_manager_is_not_negative(name: str, words: str):
    durations: dict[str, Any] = {"stabilization": NOTHING, "max_trigger_delay": NOTHING}
    TransitionManager.begin(START, **durations)
    with pytest.raises(ValueError, match=exactly(words)):
        TransitionManager.begin(START, **durations | {name: -MS})


def cooling(extension: CooldownExtension, limit: timedelta | None = None) -> TransitionManager:
    return TransitionManager.begin(START, cooldown=30 * SECOND, stabilization=NOTHING, extension=extension, limit=limit)


def changed(manager: TransitionManager, *seconds: int) -> TransitionManager:
    for second in seconds:
        manager = manager.change(START + second * SECOND, Resources.SUFFICIENT)
    return manager


def test_cooldown_is_extended_to_its_limit_and_no_further():
    every = cooling(CooldownExtension.EVERY_CHANGE, limit=45 * SECOND)
    assert changed(every, 10).cooldown_ends == START + 40 * SECOND
    assert changed(every, 10, 20).cooldown_ends == START + 45 * SECOND


@pytest.mark.parametrize("extension", CooldownExtension)
def test_first_of_the_changes_within_the_cooldown_is_remembered(extension: CooldownExtension):
    assert changed(cooling(extension), 10, 20).first_change == START + 10 * SECOND


def test_round_that_led_nowhere_is_forgotten():
    manager = changed(cooling(CooldownExtension.NONE), 10)
    stabilizing = manager.advance(START + 30 * SECOND, Resources.NONE)
    assert (stabilizing.phase, stabilizing.first_change) == (Phase.IDLING, None)


def test_nothing_is_left_to_evaluate_when_resources_have_stabilized():
    manager = TransitionManager.begin(START, stabilization=SECOND, max_trigger_delay=10 * SECOND, changed=True)
    assert manager.advance(START, Resources.SUFFICIENT).evaluation == START + 10 * SECOND
    stabilized = manager.advance(START + SECOND, Resources.SUFFICIENT)
    assert (stabilized.phase, stabilized.evaluation) == (Phase.STABILIZED, None)


# ---- failures -------------------------------------------------------------------------------------------------------


def test_pattern_of_a_condition_fits_all_that_is_more_particular():
    expired = Failure(error_class="PAYMENT.CARD.EXPIRED", message="")
    assert not is_recoverable(expired, non_recoverable=["PAYMENT"])
    assert is_recoverable(expired, non_recoverable=["PAYMENT.CARD"])


def test_job_has_run_unless_told_otherwise():
    mistake = Failure(error_class="KeyError", message="", causes=(BUILD_FUNCTION_ERROR, "KeyError"))
    assert is_recoverable(mistake)
    assert not is_recoverable(mistake, has_run=False)


# ---- slots ----------------------------------------------------------------------------------------------------------


def test_of_equally_loaded_workers_the_one_with_most_free_slots_is_next_also_after_it_took_one():
    workers = [WorkerSlots(worker="a", free=3), WorkerSlots(worker="b", free=1)]
    assert spread([1, 1], workers, LoadBalanceMode.TASKS, {"b": 1}) == ("a", "a")


# ---- requirements and job graphs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", ["three", (1, 2, 3), (1,), None, 1.5, (1.0, 2.0)])
def test_range_of_anything_but_whole_numbers_is_refused(bounds: Any):
    words = f"parallelism {bounds!r} must be a whole number, or a pair of them (lower, upper)"
    with pytest.raises(ValueError, match=exactly(words)):
        ParallelismRange.of(bounds)


@pytest.mark.parametrize("asked", [ParallelismRange(0, 1), ParallelismRange(3, -1)])
def test_refused_requirements_are_named(asked: ParallelismRange):
    with pytest.raises(RequirementsError, match=r"^resource requirements\b"):
        accept({"v": asked}, {"v": ParallelismRange(1, 2)}, {"v": 8})


def test_graph_of_a_job_that_declares_none_has_its_name():
    assert JobGraph.single("departures", ParallelismRange(1, 2)).job == "departures"


def test_maximum_parallelism_has_a_maximum():
    def graph(maximum: int) -> JobGraph:
        vertex = JobVertex(name="v", parallelism=ParallelismRange(1, 2), max_parallelism=maximum)
        return JobGraph(job="job", vertices=(vertex,))

    graph(32768).validate()
    with pytest.raises(JobGraphError) as raised:
        graph(32769).validate()
    assert raised.value.violations == (
        "maximum parallelism 32769 of vertex 'v' exceeds 32768, the most that any vertex can have",
    )
