"""The table of options, from which the operator's parameters, the section of `airflow.cfg`, the documentation and Flink's names are derived.

The table contains the options of the whole loop. The scheduler itself does not read some of them, for example `poll_interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_adaptive._core.scheduler.allocator import LoadBalanceMode
from airflow_adaptive._core.scheduler.config.parsing import (
    MINIMAL_INCREASE,
    flag,
    fold_flink_parameters,
    format_duration,
    load_balance_mode,
    not_negative,
    one_of,
    one_or_more,
    or_never,
    or_unset,
    parse_restart_strategy,
    patterns,
    positive,
    reactive,
    rescale_tier,
    scale_up_controller,
    strategy_name,
)
from airflow_adaptive._core.scheduler.errors import OptionError, did_you_mean
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.restart_backoff import ExponentialDelay, RestartStrategy
from airflow_adaptive._core.scheduler.policies.transition_manager import CooldownExtension


class SourceAlignment(StrEnum):
    """How the upper bound of a vertex that reads a source is aligned with the number of partitions."""

    BALANCED = "balanced"
    """Raise the parallelism to the next value with which the subtasks read fewer partitions, if there is one; else keep the value."""
    EVENLY_SPREAD = "evenly_spread"
    """Use a divisor of the number of partitions, so that each subtask reads equally many: the next larger one, else the next smaller one."""
    OFF = "off"
    """Use at most as many subtasks as partitions."""


_ADAPTIVE = "jobmanager.adaptive-scheduler."


class StandbyMode(StrEnum):
    """What is prepared while the job runs, to replace a driver that ends."""

    NONE = "none"
    """Nothing: a new driver starts when the old one has ended."""
    DRIVER = "driver"
    """A driver with its session and its queries."""
    DRIVER_AND_EXECUTORS = "driver+executors"
    """The driver also holds the executors of the plan, as far as the cluster has free slots."""


class BelowLowerBound(StrEnum):
    """Reaction of a running job to fewer slots than its lower bounds require."""

    WAIT = "wait"
    """Stop at a batch boundary and wait for resources (FLIP-291)."""
    KEEP_RUNNING = "keep_running"
    """Continue on the available slots, as Flink does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the table.

    Attributes:
        name: name of the option.
        default: default value in its configuration notation, None without a default.
        doc: description in one line.
        flink: Flink's names, the newest first. An older name applies if no newer name is set.
        parse: function that parses a value, and that raises `ValueError`.
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
    """The options of one job. `OPTIONS` is the table that is derived from these fields."""

    resource_wait_timeout: timedelta | None = _option(
        timedelta(minutes=5),
        or_never,
        "Longest wait for resources; afterwards the job starts on the available slots, or fails if they do not suffice. Negative: no limit.",
        _ADAPTIVE + "submission.resource-wait-timeout",
        _ADAPTIVE + "resource-wait-timeout",
    )
    resource_stabilization_timeout: timedelta = _option(
        timedelta(seconds=10),
        not_negative,
        "Time for which sufficient, but not desired, resources must be available before the job starts with them.",
        _ADAPTIVE + "submission.resource-stabilization-timeout",
        _ADAPTIVE + "resource-stabilization-timeout",
    )
    scaling_interval_min: timedelta = _option(
        timedelta(seconds=30),
        not_negative,
        "Cooldown: shortest time between two rescales; changes during the cooldown become one rescale.",
        _ADAPTIVE + "executing.cooldown-after-rescaling",
        _ADAPTIVE + "scaling-interval.min",
    )
    scaling_interval_max: timedelta | None = _option(
        None,
        or_unset(positive),
        "Time without a rescale after which a change below the minimum increase is forced; unset: never.",
        _ADAPTIVE + "scaling-interval.max",
    )
    cooldown_extension: CooldownExtension = _option(
        CooldownExtension.NONE,
        one_of(CooldownExtension),
        "Whether a change during the cooldown starts the cooldown again: none, first_change or every_change.",
    )
    executing_stabilization_timeout: timedelta = _option(
        timedelta(seconds=60),
        not_negative,
        "Time that a running job waits for the desired resources after a sufficient change.",
        _ADAPTIVE + "executing.resource-stabilization-timeout",
    )
    max_trigger_delay: timedelta | None = _option(
        None,
        or_unset(not_negative),
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
        "Smallest increase of the cumulative parallelism that causes a rescale.",
        _ADAPTIVE + "min-parallelism-increase",
    )
    scale_up_controller: str = _option(
        MINIMAL_INCREASE,
        scale_up_controller,
        "Controller that decides whether an increase causes a rescale: minimal-increase, or your own class as `module:Class`.",
    )
    reactive: bool = _option(
        False,
        reactive,
        "Use all available slots: the bounds are 1 and the maximum parallelism instead of the declared bounds.",
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
        "Changes of the requirements within this time take effect together.",
        "slot.request.max-interval",
    )
    slot_idle_timeout: timedelta = _option(
        timedelta(seconds=50),
        not_negative,
        "Time for which slots that the plan does not use are kept before they return to the cluster; 0: no time.",
        "slot.idle.timeout",
    )
    below_lower_bound: BelowLowerBound = _option(
        BelowLowerBound.WAIT,
        one_of(BelowLowerBound),
        "Reaction of a running job if the slots do not suffice for its lower bounds any more: wait or keep_running.",
    )
    local_recovery_timeout: timedelta = _option(
        timedelta(minutes=1),
        not_negative,
        "Time in which Spark may replace lost executors before the scheduler makes a new plan.",
    )
    highest_rescale_tier: Tier = _option(
        Tier.DRIVER,
        rescale_tier,
        "Highest rescale tier: 0 executors, 1 query, 2 state, 3 driver. A change that needs a higher tier waits for the next"
        " start of the job. After a loss of slots, the job runs on fewer slots in every case.",
    )
    deploy_timeout: timedelta = _option(
        timedelta(minutes=5),
        positive,
        "Longest time from a new plan until the driver activates the plan on all its slots.",
        "slot.request.timeout",
    )
    probe_timeout: timedelta = _option(
        timedelta(minutes=5),
        positive,
        "Time for which a plan waits for slots that a cluster may add on demand, at most `deploy_timeout`.",
    )
    probe_interval: timedelta = _option(
        timedelta(minutes=10),
        positive,
        "Time before the next attempt to get slots that a cluster did not add; the time doubles with each such attempt.",
    )
    standby: StandbyMode = _option(
        StandbyMode.NONE,
        one_of(StandbyMode),
        "What is prepared while the job runs, to replace a driver that ends: none, driver or driver+executors. It occupies slots of the cluster.",
    )
    prepare_deployments: bool = _option(
        True,
        flag,
        "Prepare the driver of a new deployment while the job runs, if the cluster has room for one more driver. If the preparation fails, the job"
        " continues with its driver.",
    )
    stop_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "Longest graceful stop at a batch boundary, after which the driver is killed. A batch that takes more than half of this time is interrupted and replayed.",
    )
    driver_heartbeat_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "Time without a new driver status after which a driver counts as failed.",
        "heartbeat.timeout",
    )
    driver_lease_timeout: timedelta = _option(
        timedelta(minutes=1),
        positive,
        "Time without access to the journal after which a driver stops; a successor starts earlier only if the driver is known to have ended.",
    )
    poll_interval: timedelta = _option(
        timedelta(seconds=1),
        positive,
        "Interval between polls of the cluster, the driver status and control requests.",
    )
    trigger_lifetime: timedelta = _option(
        timedelta(hours=12),
        positive,
        "Time after which the deferred task resumes and defers again, which loads new code and creates a new trigger.",
    )
    orphan_timeout: timedelta | None = _option(
        timedelta(days=7),
        or_never,
        "Time without a control loop after which a driver stops at a batch boundary; negative: never.",
    )
    job_directory_timeout: timedelta | None = _option(
        None,
        or_unset(positive),
        "Longest outage of the job directory that the loop tolerates before the task fails; unset: no limit.",
    )
    lag_alert_threshold: timedelta | None = _option(
        None,
        or_unset(positive),
        "Age of the oldest unread row at the sources above which the job raises an alert; unset: never.",
    )
    source_alignment: SourceAlignment = _option(
        SourceAlignment.BALANCED,
        one_of(SourceAlignment),
        "How the upper bound of a vertex that reads a source is aligned with the number of partitions: balanced, evenly_spread or off.",
    )
    history_size: int = _option(
        1000,
        one_or_more,
        "Number of steps that the journal keeps, and number of rescales that the history keeps.",
        "web.adaptive-scheduler.rescale-history.size",
    )
    failure_history_size: int = _option(
        16,
        one_or_more,
        "Number of failures, each with its concurrent failures, that the failure history keeps.",
        "web.exception-history-size",
    )
    non_recoverable_failures: tuple[str, ...] = _option(
        (),
        patterns,
        "Patterns of exception classes and Spark error conditions that are not recoverable, in addition to the known ones.",
    )
    recoverable_failures: tuple[str, ...] = _option(
        (),
        patterns,
        "Patterns of exception classes and Spark error conditions that are recoverable, although the known patterns exclude them.",
    )
    max_failures_before_first_batch: int = _option(
        3,
        one_or_more,
        "Number of equal failures after which a job fails if no batch was ever committed with its current deployment. Failures that may be"
        " an outage of storage, brokers or cluster count only until the job has completed a trigger. Failures that `recoverable_failures`"
        " names never count.",
    )
    restart_strategy: RestartStrategy = _option(
        ExponentialDelay(),
        parse_restart_strategy,
        "none, fixed-delay, failure-rate or exponential-delay; or a mapping of type and its parameters.",
        "restart-strategy.type",
        "restart-strategy",
    )

    def __post_init__(self) -> None:
        """Check the options that depend on each other. Raises `OptionError`."""
        wrong = list(_contradictions({row.name: getattr(self, row.name) for row in fields(self)}))
        if wrong:
            raise OptionError("; ".join(wrong))

    @classmethod
    def of(cls, *sources: Mapping[str, object]) -> Options:
        """Parse options by their own names or by Flink's names.

        Own names take precedence over Flink's names, and a newer name of Flink takes precedence over an older name.

        Args:
            sources: values by name, the source with the highest precedence first.

        Raises:
            OptionError: an option is unknown or invalid; the message lists every violation.
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
"""Timeouts of a reactive job by default (Flink's `AdaptiveScheduler.Settings`)."""


def _contradictions(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the contradictions between options; options that could not be parsed are missing."""
    least, longest = options.get("scaling_interval_min"), options.get("scaling_interval_max")
    if least is not None and longest is not None and longest <= least:
        yield (
            f"scaling_interval_max ({format_duration(longest)}) must be longer than"
            f" scaling_interval_min ({format_duration(least)})"
        )
    orphan_timeout, lifetime = options.get("orphan_timeout"), options.get("trigger_lifetime")
    if orphan_timeout is not None and lifetime is not None and orphan_timeout < 2 * lifetime:
        yield (
            f"orphan_timeout ({format_duration(orphan_timeout)}) must be at least twice"
            f" trigger_lifetime ({format_duration(lifetime)})"
        )


def _given(option: Option, sources: Iterable[Mapping[str, object]]) -> tuple[str, object] | None:
    """Return the name under which an option is set, and its value: from the first source that sets the option, by its newest name."""
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


NO_SUCH_OPTION = f": the options are {', '.join(row.name for row in fields(Options))}"

DEFAULTS = Options()


def _table() -> dict[str, Option]:
    return {
        row.name: Option(name=row.name, default=_as_text(getattr(DEFAULTS, row.name)), **row.metadata)
        for row in fields(Options)
    }


OPTIONS: Mapping[str, Option] = _table()
"""Every option by its name."""
