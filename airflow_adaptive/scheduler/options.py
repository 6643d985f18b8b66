"""The one table of options: operator parameters, airflow.cfg, documentation and Flink's names all come from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from airflow_adaptive.scheduler.durations import (
    format_duration,
    not_negative,
    or_never,
    positive,
    positive_or_unset,
)
from airflow_adaptive.scheduler.errors import OptionError
from airflow_adaptive.scheduler.policies.restart_backoff import ExponentialDelay, RestartStrategy
from airflow_adaptive.scheduler.policies.transition_manager import CooldownExtension
from airflow_adaptive.scheduler.restart_strategies import (
    fold_flink_parameters,
    parse_restart_strategy,
    strategy_name,
)

_ADAPTIVE = "jobmanager.adaptive-scheduler."

_Choice = TypeVar("_Choice", bound=StrEnum)


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


def _row(parse: Callable[[object], Any], doc: str, *flink: str) -> dict[str, Any]:
    return {"parse": parse, "doc": doc, "flink": flink}


def _one_or_more(value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no whole number") from None
    if number < 1:
        raise ValueError(f"should have a value of 1 or higher, not {value!r}")
    return number


def _one_of(choices: type[_Choice]) -> Callable[[object], _Choice]:
    def parse(value: object) -> _Choice:
        try:
            return choices(str(value))
        except ValueError:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}") from None

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one job; see `OPTIONS` for the table that is derived from these fields."""

    resource_wait_timeout: timedelta | None = field(
        default=timedelta(minutes=5),
        metadata=_row(
            or_never,
            "Longest wait for resources before the job is tried, or fails for lack of them; negative: for ever.",
            _ADAPTIVE + "submission.resource-wait-timeout",
            _ADAPTIVE + "resource-wait-timeout",
        ),
    )
    resource_stabilization_timeout: timedelta = field(
        default=timedelta(seconds=10),
        metadata=_row(
            not_negative,
            "How long sufficient but not desired resources must be there before the job starts with them.",
            _ADAPTIVE + "submission.resource-stabilization-timeout",
            _ADAPTIVE + "resource-stabilization-timeout",
        ),
    )
    scaling_interval_min: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_row(
            not_negative,
            "Cooldown: least time between two rescales; changes within it are remembered and folded into one.",
            _ADAPTIVE + "executing.cooldown-after-rescaling",
            _ADAPTIVE + "scaling-interval.min",
        ),
    )
    scaling_interval_max: timedelta | None = field(
        default=None,
        metadata=_row(
            positive_or_unset,
            "After this long without a rescale, a change below the minimal increase is forced; unset: never.",
            _ADAPTIVE + "scaling-interval.max",
        ),
    )
    cooldown_extension: CooldownExtension = field(
        default=CooldownExtension.NONE,
        metadata=_row(
            _one_of(CooldownExtension),
            "Whether a change within the cooldown starts it anew: none, first_change or every_change.",
        ),
    )
    executing_stabilization_timeout: timedelta = field(
        default=timedelta(seconds=60),
        metadata=_row(
            not_negative,
            "While executing, how long to wait after a sufficient change for the desired resources.",
            _ADAPTIVE + "executing.resource-stabilization-timeout",
        ),
    )
    max_trigger_delay: timedelta = field(
        default=timedelta(seconds=10),
        metadata=_row(
            not_negative,
            "A rescale waits at most this long for a committed batch.",
            _ADAPTIVE + "rescale-trigger.max-delay",
        ),
    )
    max_failed_batches: int = field(
        default=2,
        metadata=_row(
            _one_or_more,
            "A rescale that waits for a committed batch goes ahead after this many failed ones.",
            _ADAPTIVE + "rescale-trigger.max-checkpoint-failures",
        ),
    )
    min_parallelism_increase: int = field(
        default=1,
        metadata=_row(
            _one_or_more,
            "Least increase of the cumulative parallelism that is worth a rescale.",
            _ADAPTIVE + "min-parallelism-increase",
        ),
    )
    below_lower_bound: BelowLowerBound = field(
        default=BelowLowerBound.WAIT,
        metadata=_row(
            _one_of(BelowLowerBound),
            "What a running job does that can't have its lower bound any more: wait or keep_running.",
        ),
    )
    local_recovery_timeout: timedelta = field(
        default=timedelta(minutes=1),
        metadata=_row(
            not_negative,
            "How long Spark may take to replace lost executors before a new plan is made.",
        ),
    )
    deploy_timeout: timedelta = field(
        default=timedelta(minutes=5),
        metadata=_row(
            positive,
            "Longest time from a submit or rescale command until the driver reports the plan in force.",
            "slot.request.timeout",
        ),
    )
    stop_timeout: timedelta = field(
        default=timedelta(minutes=1),
        metadata=_row(
            positive,
            "Longest graceful stop at a batch boundary; the driver is killed after it.",
        ),
    )
    driver_heartbeat_timeout: timedelta = field(
        default=timedelta(minutes=1),
        metadata=_row(
            positive,
            "A driver that reports nothing for so long has failed.",
            "heartbeat.timeout",
        ),
    )
    driver_lease_timeout: timedelta = field(
        default=timedelta(minutes=1),
        metadata=_row(
            positive,
            "A driver that can't read its log for so long stops; a successor starts no sooner unless it is seen dead.",
        ),
    )
    poll_interval: timedelta = field(
        default=timedelta(seconds=1),
        metadata=_row(
            positive,
            "How often cluster, driver and wishes are looked at.",
        ),
    )
    trigger_lifetime: timedelta = field(
        default=timedelta(hours=12),
        metadata=_row(
            positive,
            "The deferred task wakes and defers anew after this long, well inside the retention of `airflow db clean`.",
        ),
    )
    history_size: int = field(
        default=1000,
        metadata=_row(
            _one_or_more,
            "How many steps the job's log keeps.",
            "web.adaptive-scheduler.rescale-history.size",
        ),
    )
    restart_strategy: RestartStrategy = field(
        default_factory=ExponentialDelay,
        metadata=_row(
            parse_restart_strategy,
            "none, fixed-delay, failure-rate or exponential-delay; or a mapping of type and its parameters.",
            "restart-strategy.type",
            "restart-strategy",
        ),
    )

    def __post_init__(self) -> None:
        """Check what spans several options. Raises `OptionError`."""
        longest = self.scaling_interval_max
        if longest is not None and longest <= self.scaling_interval_min:
            raise OptionError(
                f"scaling_interval_max ({format_duration(longest)}) must be longer than"
                f" scaling_interval_min ({format_duration(self.scaling_interval_min)})"
            )

    @classmethod
    def of(cls, *sources: Mapping[str, object]) -> Options:
        """Read options by our names or Flink's; ours beat Flink's, a newer Flink name beats an older one.

        Args:
            sources: what is set, the most particular first (a task's options, then its deployment's).

        Raises:
            OptionError: naming every unknown option and every impossible value.
        """
        folded = [fold_flink_parameters(source, _names(OPTIONS["restart_strategy"])) for source in sources]
        known = {name for option in OPTIONS.values() for name in _names(option)}
        unknown = [repr(name) for source in folded for name in source if name not in known]
        wrong = [f"unknown option {', '.join(unknown)}: there are {', '.join(OPTIONS)}"] if unknown else []
        parsed: dict[str, Any] = {}
        for option in OPTIONS.values():
            given = next(((name, source[name]) for source in folded for name in _names(option) if name in source), None)
            if given is not None:
                try:
                    parsed[option.name] = option.parse(given[1])
                except ValueError as error:
                    wrong.append(f"{given[0]} {error}")
        if wrong:
            raise OptionError("; ".join(wrong))
        return cls(**parsed)


def _names(option: Option) -> tuple[str, ...]:
    return (option.name, *option.flink)


def _as_text(value: object) -> str | int | None:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, RestartStrategy):
        return strategy_name(value)
    return value if value is None or isinstance(value, int) else str(value)


def _table() -> dict[str, Option]:
    defaults = Options()
    return {
        row.name: Option(name=row.name, default=_as_text(getattr(defaults, row.name)), **row.metadata)
        for row in fields(Options)
    }


OPTIONS: Mapping[str, Option] = _table()
"""Every option by its name."""
