"""Values of options as people write them."""

import pytest

from airflow_adaptive._core.scheduler.allocator.load_balancing import LoadBalanceMode
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.config.parsing import load_scale_up_controller, patterns, rescale_tier
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
        ("load_balance_mode", "workers", "load_balance_mode 'workers' is none of none, slots, tasks"),
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
    with pytest.raises(ValueError, match=r"is none of 0 \(executors\), 1 \(query\), 2 \(state\), 3 \(driver\)"):
        rescale_tier(given)


def test_controller_that_raises_any_exception_is_named_in_one_class_of_errors():
    name = f"{__name__}:Defective"
    with pytest.raises(ScaleUpControllerError, match=f"scale_up_controller '{name}' failed .KeyError."):
        load_scale_up_controller(name, 1).can_scale_up({"job": 1}, {"job": 2})
    with pytest.raises(OptionError, match="no configuration"):
        Options.of({"scale_up_controller": f"{__name__}:Refusing"})
