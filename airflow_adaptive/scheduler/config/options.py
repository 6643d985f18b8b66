"""The one table of options: operator parameters, airflow.cfg, documentation and Flink's names all come from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_adaptive.scheduler.allocator.load_balancing import LoadBalanceMode
from airflow_adaptive.scheduler.config.durations import (
    format_duration,
    not_negative,
    not_negative_or_unset,
    or_never,
    positive,
    positive_or_unset,
)
from airflow_adaptive.scheduler.config.parsing import (
    MINIMAL_INCREASE,
    load_balance_mode,
    one_of,
    one_or_more,
    patterns,
    reactive,
    rescale_tier,
    scale_up_controller,
)
from airflow_adaptive.scheduler.config.restart_strategies import (
    fold_flink_parameters,
    parse_restart_strategy,
    strategy_name,
)
from airflow_adaptive.scheduler.errors import OptionError, did_you_mean
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.restart_backoff import ExponentialDelay, RestartStrategy
from airflow_adaptive.scheduler.policies.transition_manager import CooldownExtension

_ADAPTIVE = "jobmanager.adaptive-scheduler."


class BelowLowerBound(StrEnum):
    """What a running job does that can't have its lower bound any more."""

    WAIT = "wait"
    """Stop at a batch boundary and wait for resources (FLIP-291)."""
    KEEP_RUNNING = "keep_running"
    """Go on with what it has (Flink's practice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the table.

    Attributes:
        name: ours.
        default: what holds if nothing is set, as a person would write it; None if nothing does.
        doc: one line.
        flink: Flink's names, the newest first; older ones are fallbacks.
        parse: reads a value; raises ValueError.
    """

    name: str
    default: str | int | None
    doc: str
    flink: tuple[str, ...]
    parse: Callable[[object], Any]


def _option(default: object, parse: Callable[[object], Any], doc: str, *flink: str) -> Any:
    return field(default=default, metadata={"parse": parse, "doc": doc, "flink": flink})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one job; see `OPTIONS` for the table that is derived from these fields."""

    resource_wait_timeout: timedelta | None = _option(
        timedelta(minutes=5),
        or_never,
        "Longest wait for resources before the job is tried, or fails for lack of them; negative: for ever.",
        _ADAPTIVE + "submission.resource-wait-timeout",
        _ADAPTIVE + "resource-wait-timeout",
    )
    resource_stabilization_timeout: timedelta = _option(
        timedelta(seconds=10),
        not_negative,
        "How long sufficient but not desired resources must be there before the job starts with them.",
        _ADAPTIVE + "submission.resource-stabilization-timeout",
        _ADAPTIVE + "resource-stabilization-timeout",
    )
    scaling_interval_min: timedelta = _option(
        timedelta(seconds=30),
        not_negative,
        "Cooldown: least time between two rescales; changes within it are remembered and folded into one.",
        _ADAPTIVE + "executing.cooldown-after-rescaling",
        _ADAPTIVE + "scaling-interval.min",
    )
    scaling_interval_max: timedelta | None = _option(
        None,
        positive_or_unset,
        "After this long without a rescale, a change below the minimal increase is forced; unset: never.",
        _ADAPTIVE + "scaling-interval.max",
    )
    cooldown_extension: CooldownExtension = _option(
        CooldownExtension.NONE,
        one_of(CooldownExtension),
        "Whether a change within the cooldown starts it anew: none, first_change or every_change.",
    )
    executing_stabilization_timeout: timedelta = _option(
        timedelta(seconds=60),
        not_negative,
        "While executing, how long to wait after a sufficient change for the desired resources.",
        _ADAPTIVE + "executing.resource-stabilization-timeout",
    )
    max_trigger_delay: timedelta | None = _option(
        None,
        not_negative_or_unset,
        "Longest time that a rescale waits for a committed batch; unset: (`max_failed_batches` + 1) trigger intervals,"
        " at least 10 s.",
        _ADAPTIVE + "rescale-trigger.max-delay",
    )
    max_failed_batches: int = _option(
        2,
        one_or_more,
        "Number of trigger intervals, minus one, in the default of `max_trigger_delay`.",
        _ADAPTIVE + "rescale-trigger.max-checkpoint-failures",
    )
    min_parallelism_increase: int = _option(
        1,
        one_or_more,
        "Least increase of the cumulative parallelism that is worth a rescale.",
        _ADAPTIVE + "min-parallelism-increase",
    )
    scale_up_controller: str = _option(
        MINIMAL_INCREASE,
        scale_up_controller,
        "Decides whether an increase is worth a rescale: minimal-increase, or a class of yours as `module:Class`.",
    )
    reactive: bool = _option(
        False,
        reactive,
        "Take all slots that there are: bounds are 1 and the maximum parallelism, whatever was declared.",
        "scheduler-mode",
    )
    load_balance_mode: LoadBalanceMode = _option(
        LoadBalanceMode.NONE,
        load_balance_mode,
        "none; slots: spread slots over workers; tasks: spread subtasks over slots and workers.",
        "taskmanager.load-balance.mode",
        "slot.sharing-strategy",
        "cluster.evenly-spread-out-slots",
    )
    slot_request_max_interval: timedelta = _option(
        timedelta(milliseconds=20),
        not_negative,
        "Changes of requirements within this time are one declaration of slots.",
        "slot.request.max-interval",
    )
    slot_idle_timeout: timedelta = _option(
        timedelta(seconds=50),
        not_negative,
        "How long slots above the plan are kept before they go back to the cluster; 0: at once.",
        "slot.idle.timeout",
    )
    below_lower_bound: BelowLowerBound = _option(
        BelowLowerBound.WAIT,
        one_of(BelowLowerBound),
        "What a running job does that can't have its lower bound any more: wait or keep_running.",
    )
    local_recovery_timeout: timedelta = _option(
        timedelta(minutes=1),
        not_negative,
        "How long Spark may take to replace lost executors before a new plan is made.",
    )
    highest_rescale_tier: Tier = _option(
        Tier.DRIVER,
        rescale_tier,
        "Highest rung of the rescale ladder: 0 executors, 1 query, 2 state, 3 driver. A change that needs a higher one waits"
        " for the next start of the job, except that slots that are gone are done without.",
    )
    deploy_timeout: timedelta = _option(
        timedelta(minutes=5),
        positive,
        "Longest time from a submit or rescale command until the driver reports the plan in force.",
        "slot.request.timeout",
    )
    stop_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "Longest graceful stop at a batch boundary; the driver is killed after it. A batch that takes more than half of it is cut, and replayed.",
    )
    driver_heartbeat_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "A driver that reports nothing for so long has failed.",
        "heartbeat.timeout",
    )
    driver_lease_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "A driver that can't read its log for so long stops; a successor starts no sooner unless it is seen dead.",
    )
    poll_interval: timedelta = _option(
        timedelta(seconds=1),
        positive,
        "How often cluster, driver and wishes are looked at.",
    )
    trigger_lifetime: timedelta = _option(
        timedelta(hours=12),
        positive,
        "The deferred task wakes and defers anew after this long: it takes up new code, and its trigger stays young.",
    )
    orphan_timeout: timedelta | None = _option(
        timedelta(days=7),
        or_never,
        "A driver that no loop has looked after for so long stops at a batch boundary; negative for never.",
    )
    history_size: int = _option(
        1000,
        one_or_more,
        "How many steps the job's log keeps, and how many rescales beside it.",
        "web.adaptive-scheduler.rescale-history.size",
    )
    failure_history_size: int = _option(
        16,
        one_or_more,
        "How many failures, each with those that came with it, are remembered.",
        "web.exception-history-size",
    )
    non_recoverable_failures: tuple[str, ...] = _option(
        (),
        patterns,
        "Patterns of exception classes and Spark error conditions that no restart can mend, beside the known ones.",
    )
    recoverable_failures: tuple[str, ...] = _option(
        (),
        patterns,
        "Patterns of those that a restart may mend although they are known not to be recoverable.",
    )
    restart_strategy: RestartStrategy = _option(
        ExponentialDelay(),
        parse_restart_strategy,
        "none, fixed-delay, failure-rate or exponential-delay; or a mapping of type and its parameters.",
        "restart-strategy.type",
        "restart-strategy",
    )

    def __post_init__(self) -> None:
        """Check what spans several options. Raises `OptionError`."""
        wrong = list(_contradictions({row.name: getattr(self, row.name) for row in fields(self)}))
        if wrong:
            raise OptionError("; ".join(wrong))

    @classmethod
    def of(cls, *sources: Mapping[str, object]) -> Options:
        """Read options by our names or Flink's; ours beat Flink's, a newer Flink name beats an older one.

        Args:
            sources: what is set, the most particular first (a task's options, then its deployment's).

        Raises:
            OptionError: naming every unknown option and every impossible value.
        """
        folded = fold_flink_parameters(sources, _names(OPTIONS["restart_strategy"]))
        known = {name for option in OPTIONS.values() for name in _names(option)}
        unknown = dict.fromkeys(name for source in folded for name in source if name not in known)
        wrong = [f"unknown option {name!r}{did_you_mean(name, known) or NO_SUCH_OPTION}" for name in unknown]
        parsed: dict[str, Any] = {row.name: getattr(DEFAULTS, row.name) for row in fields(cls)}
        given = {option.name: found for option in OPTIONS.values() if (found := _given(option, folded)) is not None}
        for option, (name, value) in given.items():
            try:
                parsed[option] = OPTIONS[option].parse(value)
            except ValueError as error:
                wrong.append(f"{name} {error}")
                del parsed[option]
        wrong += _contradictions(parsed)
        if wrong:
            raise OptionError("; ".join(wrong))
        reactive_defaults = {name: value for name, value in _REACTIVE_DEFAULTS.items() if name not in given}
        return cls(**parsed | (reactive_defaults if parsed["reactive"] else {}))


_REACTIVE_DEFAULTS = {"resource_wait_timeout": None, "resource_stabilization_timeout": timedelta(0)}
"""What a reactive job waits unless told otherwise (Flink's `AdaptiveScheduler.Settings`)."""


def _contradictions(options: Mapping[str, Any]) -> Iterator[str]:
    """What spans several options; those that could not be read are missing."""
    least, longest = options.get("scaling_interval_min"), options.get("scaling_interval_max")
    if least is not None and longest is not None and longest <= least:
        yield (
            f"scaling_interval_max ({format_duration(longest)}) must be longer than"
            f" scaling_interval_min ({format_duration(least)})"
        )
    patience, lifetime = options.get("orphan_timeout"), options.get("trigger_lifetime")
    if patience is not None and lifetime is not None and patience < 2 * lifetime:
        yield (
            f"orphan_timeout ({format_duration(patience)}) must be at least twice"
            f" trigger_lifetime ({format_duration(lifetime)})"
        )


def _given(option: Option, sources: Iterable[Mapping[str, object]]) -> tuple[str, object] | None:
    """The name that an option was given by, and its value: the most particular source first, then the newest name."""
    return next(((name, source[name]) for source in sources for name in _names(option) if name in source), None)


def _names(option: Option) -> tuple[str, ...]:
    return (option.name, *option.flink)


def _as_text(value: object) -> str | int | None:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, RestartStrategy):
        return strategy_name(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Tier):
        return value.value
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return value if value is None or isinstance(value, int) else str(value)


NO_SUCH_OPTION = f": there are {', '.join(row.name for row in fields(Options))}"

DEFAULTS = Options()


def _table() -> dict[str, Option]:
    return {
        row.name: Option(name=row.name, default=_as_text(getattr(DEFAULTS, row.name)), **row.metadata)
        for row in fields(Options)
    }


OPTIONS: Mapping[str, Option] = _table()
"""Every option by its name."""
