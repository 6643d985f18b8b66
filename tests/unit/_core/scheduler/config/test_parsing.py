"""Values of options as people write them, and durations in every notation."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler.allocator import LoadBalanceMode
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.config.parsing import (
    LONGEST,
    format_duration,
    load_scale_up_controller,
    not_negative,
    or_never,
    or_unset,
    parse_duration,
    patterns,
    positive,
    rescale_tier,
)
from airflow_adaptive._core.scheduler.errors import OptionError, ScaleUpControllerError
from airflow_adaptive._core.scheduler.policies.rescaling import CustomController, MinimalIncrease, Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism


class OnlyDoubles:
    """A controller as a user might write it."""

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        return sum(new.values()) >= 2 * sum(current.values())


class NoController:
    """Something else."""


class Defective(OnlyDoubles):
    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        return new["no such vertex"] > 0


class Refusing(OnlyDoubles):
    def __init__(self) -> None:
        raise KeyError("no configuration")


class Demanding(OnlyDoubles):
    def __init__(self, factor: int) -> None:
        self.factor = factor


@pytest.mark.parametrize(
    ("setting", "mode"),
    [
        ({"load_balance_mode": "TASKS"}, LoadBalanceMode.TASKS),
        ({"taskmanager.load-balance.mode": "Slots"}, LoadBalanceMode.SLOTS),
        ({"cluster.evenly-spread-out-slots": True}, LoadBalanceMode.SLOTS),
        ({"cluster.evenly-spread-out-slots": "false"}, LoadBalanceMode.NONE),
        ({"slot.sharing-strategy": "TASK_BALANCED_PREFERRED"}, LoadBalanceMode.TASKS),
        ({"slot.sharing-strategy": "LOCAL_INPUT_PREFERRED"}, LoadBalanceMode.NONE),
        ({"taskmanager.load-balance.mode": "none", "cluster.evenly-spread-out-slots": True}, LoadBalanceMode.NONE),
    ],
)
def test_load_balancing_is_read_under_all_of_its_names(setting: dict, mode: LoadBalanceMode):
    assert Options.of(setting).load_balance_mode is mode


@pytest.mark.parametrize("value", [True, "true", "Yes", "on", 1, "reactive", "REACTIVE"])
def test_reactive_is_a_flag_or_flinks_scheduler_mode(value: object):
    assert Options.of({"scheduler-mode": value}).reactive


def test_reactive_job_waits_without_end_unless_configured_otherwise():
    reactive = Options.of({"reactive": True})
    assert (reactive.resource_wait_timeout, reactive.resource_stabilization_timeout.total_seconds()) == (None, 0)
    options = Options.of({"reactive": True, "resource_wait_timeout": "1 min"})
    assert options.resource_wait_timeout is not None


@pytest.mark.parametrize("value", ["*.MyError, ValueError", "*.MyError ValueError", ["*.MyError", "ValueError"]])
def test_patterns_are_a_list_or_text(value: object):
    assert patterns(value) == ("*.MyError", "ValueError")


def test_no_patterns_is_an_empty_list():
    assert patterns(None) == patterns("") == patterns([]) == ()


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("reactive", "perhaps", "reactive 'perhaps' is neither true nor false"),
        ("load_balance_mode", "workers", "load_balance_mode 'workers' is not one of none, slots, tasks"),
        ("non_recoverable_failures", [1], "non_recoverable_failures \\[1\\] is not a list of patterns"),
        ("recoverable_failures", 7, "recoverable_failures 7 is not a list of patterns"),
        ("scale_up_controller", "maximal", "'maximal' is neither minimal-increase nor an importable 'module:Class'"),
        ("scale_up_controller", "nowhere:Class", "'nowhere:Class' is neither .* No module named 'nowhere'"),
        ("scale_up_controller", f"{__name__}:Missing", "neither .* has no attribute 'Missing'"),
        ("scale_up_controller", f"{__name__}:Demanding", "neither .* missing 1 required positional argument"),
        ("scale_up_controller", f"{__name__}:NoController", "has no method can_scale_up"),
    ],
)
def test_impossible_value_is_named_with_its_option(option: str, value: object, complaint: str):
    with pytest.raises(OptionError, match=complaint):
        Options.of({option: value})


def test_controller_is_ours_or_the_users():
    assert load_scale_up_controller("minimal-increase", 3) == MinimalIncrease(min_increase=3)
    custom = load_scale_up_controller(f"{__name__}:OnlyDoubles", 1)
    assert isinstance(custom, CustomController)
    assert isinstance(custom.controller, OnlyDoubles)
    assert custom.can_scale_up({"job": 1}, {"job": 2})


@pytest.mark.parametrize(
    ("given", "tier"), [(0, Tier.EXECUTORS), ("1", Tier.QUERY), ("State", Tier.STATE), (Tier.DRIVER, Tier.DRIVER)]
)
def test_rescale_tier_is_read_by_number_or_name(given: object, tier: Tier) -> None:
    assert rescale_tier(given) is tier


@pytest.mark.parametrize("given", [4, -1, "", "fast", None, True])
def test_rescale_tier_that_is_none_is_refused_with_those_that_there_are(given: object) -> None:
    with pytest.raises(ValueError, match=r"is not one of 0 \(executors\), 1 \(query\), 2 \(state\), 3 \(driver\)"):
        rescale_tier(given)


def test_controller_that_raises_any_exception_is_named_in_one_class_of_errors():
    name = f"{__name__}:Defective"
    with pytest.raises(ScaleUpControllerError, match=f"scale_up_controller '{name}' failed .KeyError."):
        load_scale_up_controller(name, 1).can_scale_up({"job": 1}, {"job": 2})
    with pytest.raises(OptionError, match="no configuration"):
        Options.of({"scale_up_controller": f"{__name__}:Refusing"})


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (timedelta(minutes=3), timedelta(minutes=3)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        ("30", timedelta(seconds=30)),
        ("30 s", timedelta(seconds=30)),
        ("30sec", timedelta(seconds=30)),
        ("  5 MIN ", timedelta(minutes=5)),
        ("1 hour", timedelta(hours=1)),
        ("2 d", timedelta(days=2)),
        ("50 ms", timedelta(milliseconds=50)),
        ("7 µs", timedelta(microseconds=7)),
        ("1.5 min", timedelta(seconds=90)),
        ("-1 ms", timedelta(milliseconds=-1)),
    ],
)
def test_duration_is_read(written: object, expected: timedelta):
    assert parse_duration(written) == expected


@pytest.mark.parametrize("written", ["", "s", "5 parsecs", "5 5 s", "1e3 s", "nan", None, True, [1], "٣ s", "5 s\n6 s"])
def test_duration_is_refused_with_what_would_do(written: object):
    with pytest.raises(
        ValueError, match="is not a duration: use a timedelta, a number of seconds, or text such as '30 s'"
    ):
        parse_duration(written)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), "9" * 400])
def test_duration_that_is_no_number_is_refused(written: object):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["36501 d", timedelta.max, timedelta.min, 1e10])
def test_duration_beyond_the_calendar_is_refused(written: object):
    with pytest.raises(ValueError, match="is longer than 36500 d"):
        parse_duration(written)


@pytest.mark.parametrize("text", ["36500 d", "5 min", "12 h", "90 s", "50 ms", "7 us", "0 s", "-1 ms"])
def test_displayed_duration_is_read_back(text: str):
    assert format_duration(parse_duration(text)) == text
    assert parse_duration(LONGEST) == LONGEST


def test_ranges_are_checked():
    assert positive("1 ms") == timedelta(milliseconds=1)
    with pytest.raises(ValueError, match="'0 s' must be longer than zero"):
        positive("0 s")
    assert not_negative(0) == timedelta(0)
    with pytest.raises(ValueError, match="'-1 s' must not be negative"):
        not_negative("-1 s")
    assert or_unset(positive)(None) is None
    assert or_unset(positive)("1 s") == timedelta(seconds=1)


def test_never_is_none_or_negative():
    assert or_never(None) is None
    assert or_never("-1 ms") is None
    assert or_never("5 s") == timedelta(seconds=5)
    assert or_never(0) == timedelta(0)
