"""The table of options: names, precedence, defaults, errors."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler.config.options import OPTIONS, BelowLowerBound, Options
from airflow_adaptive._core.scheduler.config.parsing import describe_strategy
from airflow_adaptive._core.scheduler.errors import OptionError
from airflow_adaptive._core.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from airflow_adaptive._core.scheduler.policies.transition_manager import CooldownExtension

P = "jobmanager.adaptive-scheduler."


def test_defaults_as_written_give_the_defaults():
    assert Options.of({option.name: option.default for option in OPTIONS.values()}) == Options.of({}) == Options()


def test_names_are_unambiguous():
    names = [name for option in OPTIONS.values() for name in (option.name, *option.flink)]
    assert len(names) == len(set(names))


def test_values_are_read_as_users_write_them():
    options = Options.of(
        {
            "resource_wait_timeout": -1,
            "below_lower_bound": "keep_running",
            "cooldown_extension": CooldownExtension.EVERY_CHANGE,
            "max_failed_batches": "3",
            "scaling_interval_max": timedelta(hours=1),
        }
    )
    assert options.resource_wait_timeout is None
    assert options.below_lower_bound is BelowLowerBound.KEEP_RUNNING
    assert options.cooldown_extension is CooldownExtension.EVERY_CHANGE
    assert options.max_failed_batches == 3
    assert options.scaling_interval_max == timedelta(hours=1)


def test_all_violations_are_reported_at_once():
    with pytest.raises(OptionError) as raised:
        Options.of({"max_failed_batches": 0, "waiting_time": 1, "stop_timeout": "soon", "below_lower_bound": "panic"})
    message = str(raised.value)
    assert "unknown option 'waiting_time': the options are resource_wait_timeout, " in message
    assert "max_failed_batches should have a value of 1 or higher, not 0" in message
    assert "stop_timeout 'soon' is not a duration" in message
    assert "below_lower_bound 'panic' is not one of wait, keep_running" in message


@pytest.mark.parametrize("value", ["two", 2.5, True, None])
def test_count_must_be_a_whole_number(value: object):
    with pytest.raises(OptionError, match="history_size .* is not a whole number"):
        Options.of({"history_size": value})


def test_orphan_timeout_must_exceed_the_trigger_lifetime():
    with pytest.raises(OptionError, match=r"orphan_timeout \(1 h\) must be at least twice trigger_lifetime \(31 min\)"):
        Options.of({"orphan_timeout": "1 h", "trigger_lifetime": "31 min"})
    assert Options.of({"orphan_timeout": -1}).orphan_timeout is None


def test_forced_rescale_must_come_after_the_cooldown():
    with pytest.raises(OptionError, match=r"scaling_interval_max \(30 s\) must be longer than scaling_interval_min"):
        Options.of({"scaling_interval_max": "30 s"})


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("none", NoRestart()),
        ("Disable", NoRestart()),
        ("fixeddelay", FixedDelay()),
        ({"type": "fixed-delay", "attempts": 3, "delay": "5 s"}, FixedDelay(attempts=3, delay=timedelta(seconds=5))),
        ({"type": "failure-rate", "max-failures-per-interval": "2"}, FailureRate(max_failures_per_interval=2)),
        ({"type": "exponential-delay", "jitter_factor": "0"}, ExponentialDelay(jitter_factor=0.0)),
        (FixedDelay(attempts=9), FixedDelay(attempts=9)),
    ],
)
def test_restart_strategy_is_read(written: object, expected: object):
    assert Options.of({"restart_strategy": written}).restart_strategy == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("often", r"often is an unknown value of RestartStrategyType\. The types are none, fixed-delay"),
        ({"delay": 1}, "None is an unknown value"),
        ({"type": "none", "delay": 1}, "none has no parameter delay; it has none"),
        ({"type": "fixed-delay", "tries": 1}, "fixed-delay has no parameter tries; it has attempts, delay"),
        ({"type": "fixed-delay", "attempts": "many"}, "fixed-delay: 'many' is not a number"),
        ({"type": "fixed-delay", "attempts": 1.5}, r"fixed-delay: 1\.5 is not a number"),
        ({"type": "exponential-delay", "backoff-multiplier": "nan"}, "Backoff multiplier must be greater than 1"),
        ({"type": "exponential-delay", "initial-backoff": "2 min"}, "cannot be higher than maximum backoff"),
        ({"type": "failure-rate", "delay": "never"}, "failure-rate: 'never' is not a duration"),
    ],
)
def test_restart_strategy_is_refused(written: object, message: str):
    with pytest.raises(OptionError, match=f"restart_strategy .*{message}"):
        Options.of({"restart_strategy": written})


def test_flinks_parameters_belong_to_the_strategy_that_is_named():
    values = {
        "restart-strategy": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "7",
        "restart-strategy.failure-rate.delay": "9 s",
    }
    assert Options.of(values).restart_strategy == FixedDelay(attempts=7)


def test_flinks_parameters_belong_to_the_default_strategy_when_none_is_named():
    values = {"restart-strategy.exponential-delay.initial-backoff": "2 s", "restart-strategy.fixed-delay.delay": "9 s"}
    assert Options.of(values).restart_strategy == ExponentialDelay(initial_backoff=timedelta(seconds=2))


@pytest.mark.parametrize(
    ("strategy", "described"),
    [
        (NoRestart(), "NoRestart()"),
        (FixedDelay(attempts=3), "FixedDelay(attempts=3, delay=1 s)"),
        (
            ExponentialDelay(),
            "ExponentialDelay(initial_backoff=1 s, max_backoff=1 min, backoff_multiplier=1.5, reset_backoff_threshold=1 h,"
            " jitter_factor=0.1, attempts_before_reset_backoff=no limit)",
        ),
    ],
)
def test_strategy_is_described_as_users_write_it(strategy: RestartStrategy, described: str):
    assert describe_strategy(strategy) == described


def test_flinks_parameters_have_no_state_beside_a_whole_strategy():
    values = {"restart_strategy": FixedDelay(attempts=2), "restart-strategy.fixed-delay.attempts": "7"}
    assert Options.of(values).restart_strategy == FixedDelay(attempts=2)


def test_unknown_parameter_of_flinks_is_refused():
    with pytest.raises(OptionError, match="unknown option 'restart-strategy.sometimes.delay'"):
        Options.of({"restart-strategy.sometimes.delay": 1})
    with pytest.raises(OptionError, match="fixed-delay has no parameter tries"):
        Options.of({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.tries": 1})


def test_options_that_cannot_be_parsed_contradict_nothing():
    with pytest.raises(OptionError) as raised:
        Options.of({"scaling_interval_min": "soon", "scaling_interval_max": "10 s"})
    assert "must be longer than scaling_interval_min" not in str(raised.value)
