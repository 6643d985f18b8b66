"""`python -m airflow_adaptive.autoscaling.simulation TRACE`: simulate a policy on a recorded load, beside baselines."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.errors import AdaptiveSchedulerError
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicy, RescalePolicyError
from airflow_adaptive.autoscaling.simulation import report
from airflow_adaptive.autoscaling.simulation.baselines import (
    Rule,
    StaticRule,
    doubling,
    ds2,
    dstream,
    dynamic_allocation,
)
from airflow_adaptive.autoscaling.simulation.environment import QueryModel, Run, SimulatedJob, SimulationShape
from airflow_adaptive.autoscaling.simulation.report import (
    SimulationMetrics,
    document,
    simulation_metrics,
    slots_for,
    table,
)
from airflow_adaptive.autoscaling.simulation.trace import Trace, read_trace

DAY = 86400.0

PEAK_BUSY = 0.8
"""Busy share on all slots at the peak of a trace, if --slot-rate is not set."""

Policy = RescalePolicy[Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program. Returns 0, 1 if a baseline is better and `--strict` is set, or 2 for invalid input."""
    parsed = _parser().parse_args(arguments)
    try:
        return _simulate(parsed)
    except (RescalePolicyError, AdaptiveSchedulerError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def simulation_shape(trace: Trace, arguments: argparse.Namespace) -> SimulationShape:
    """Common parameters of all runs.

    Raises:
        RescalePolicyError: lists every invalid number.
    """
    wrong = [
        f"--{name.replace('_', '-')} must be a number above 0, not {getattr(arguments, name)}"
        for name in ("slots", "trigger", "every", "partitions")
        if not 0 < getattr(arguments, name) < math.inf
    ]
    if not wrong and not 0 <= arguments.fixed < arguments.trigger:
        wrong.append(f"--fixed must be at least 0 and less than --trigger ({arguments.trigger}), not {arguments.fixed}")
    if arguments.slot_rate is not None and not 0 < arguments.slot_rate < math.inf:
        wrong.append(f"--slot-rate must be a number above 0, not {arguments.slot_rate}")
    if wrong:
        raise RescalePolicyError("simulation", wrong)
    at_peak = (
        arguments.slots
        * (PEAK_BUSY * arguments.trigger - min(arguments.fixed, arguments.trigger / 2))
        / arguments.trigger
    )
    query = QueryModel(
        slot_rate=arguments.slot_rate or trace.peak / at_peak,
        fixed=arguments.fixed,
        trigger=arguments.trigger,
        most_rows=2 * arguments.trigger * trace.peak,
        partitions=arguments.partitions,
    )
    return SimulationShape(
        query=query,
        slots=arguments.slots,
        first=min(arguments.slots, slots_for(query, trace.rates[0])),
        every=arguments.every,
        tier=Tier(arguments.tier),
        options=Options.of(dict(_option(text) for text in arguments.option)),
    )


def baselines(shape: SimulationShape, trace: Trace) -> Mapping[str, Policy]:
    """Return the baselines by name, for a job of this shape."""
    return {
        "static maximum": StaticRule(slots=shape.slots),
        "static mean": StaticRule(slots=min(shape.slots, slots_for(shape.query, trace.mean))),
        "DS2 rule": Rule(ds2),
        "doubling rule": Rule(doubling),
        "DStream rule": Rule(dstream),
        "dynamic allocation": Rule(dynamic_allocation),
    }


def compare(
    policies: Mapping[str, Policy], shape: SimulationShape, trace: Trace
) -> tuple[Sequence[SimulationMetrics], Mapping[str, Run]]:
    """Run every policy on the same load."""
    runs = {name: SimulatedJob(shape, trace, policy).run() for name, policy in policies.items()}
    return [simulation_metrics(name, run, shape.query, trace) for name, run in runs.items()], runs


def _simulate(arguments: argparse.Namespace) -> int:
    name, policy = _policy(arguments)
    if arguments.plot is not None:
        report.require_matplotlib()
    trace = _part(read_trace(arguments.trace), arguments)
    shape = simulation_shape(trace, arguments)
    others = {} if arguments.alone else _selected(baselines(shape, trace), arguments.beside)
    rows, runs = compare({name: policy, **others}, shape, trace)
    sys.stdout.write(table(rows) + "\n")
    if arguments.json is not None:
        _write(
            arguments.json, json.dumps(document(rows, trace=arguments.trace.name, days=trace.duration / DAY), indent=2)
        )
    if arguments.plot is not None:
        report.draw(arguments.plot, trace, shape.query, list(zip(rows, runs.values(), strict=True)))
    return 1 if arguments.strict and any(row.is_better_than(rows[0]) for row in rows[1:]) else 0


def _selected(policies: Mapping[str, Policy], names: Sequence[str] | None) -> Mapping[str, Policy]:
    if unknown := [name for name in names or () if name not in policies]:
        raise RescalePolicyError("--beside", [f"{name!r} is none of {', '.join(policies)}" for name in unknown])
    return policies if names is None else {name: policies[name] for name in names}


def _part(trace: Trace, arguments: argparse.Namespace) -> Trace:
    if arguments.begin == 0 and arguments.days is None:
        return trace
    begin = arguments.begin * DAY
    return trace.part(begin, math.inf if arguments.days is None else begin + arguments.days * DAY)


def _policy(arguments: argparse.Namespace) -> tuple[str, Policy]:
    """Return the policy and its name.

    Raises:
        RescalePolicyError: the policy is invalid, or an argument is missing.
    """
    load = LoadPolicy.of(_json(arguments.settings, "--settings") if arguments.settings else {})
    if arguments.policy == "load":
        return "load policy", load
    if arguments.calendar is None:
        raise RescalePolicyError(f"--policy {arguments.policy}", ["declare the windows with --calendar"])
    calendar = _calendar(_json(arguments.calendar, "--calendar"))
    if arguments.policy == "calendar":
        return "scheduled policy", calendar
    return "combined policy", CombinedPolicy(calendar=calendar, load=load)


def _calendar(written: Mapping[str, Any]) -> ScheduledPolicy:
    try:
        return scheduled_policy(**written)
    except TypeError as error:  # a missing or unknown argument
        raise RescalePolicyError("--calendar", [str(error)]) from error


def _json(text: str, name: str) -> Mapping[str, Any]:
    """Return a JSON object, from text or from a file.

    Raises:
        RescalePolicyError: the input is not a JSON object.
    """
    try:
        read = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RescalePolicyError(name, [f"{text!r} is neither a JSON object nor a file with one: {error}"]) from error
    if not isinstance(read, dict):
        raise RescalePolicyError(name, [f"{text!r} is not a JSON object: use {{...}}"])
    return read


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise RescalePolicyError("--option", [f"{text!r}: use name=value"])
    return name, value


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RescalePolicyError(f"{path}", [f"cannot be written: {error}"]) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m airflow_adaptive.autoscaling.simulation", description=__doc__)
    parser.add_argument("trace", type=Path, help="CSV with the columns time and value")
    parser.add_argument(
        "--policy", choices=("load", "calendar", "combined"), default="load", help="policy (default: load)"
    )
    parser.add_argument(
        "--calendar", help="arguments of scheduled_policy as a JSON object or a file, for calendar and combined"
    )
    parser.add_argument("--settings", help="settings of the load policy as a JSON object or a file")
    parser.add_argument("--slots", type=int, default=20, help="slots of the cluster")
    parser.add_argument(
        "--slot-rate",
        type=float,
        help="rows per second of a slot (default: the peak keeps all slots busy for 80 %% of the time)",
    )
    parser.add_argument("--fixed", type=float, default=0.5, help="duration of a batch without rows, in seconds")
    parser.add_argument("--trigger", type=float, default=10.0, help="seconds between two triggers")
    parser.add_argument("--partitions", type=int, default=1, help="state partitions; 1 for a stateless query")
    parser.add_argument(
        "--tier",
        type=int,
        choices=[tier.value for tier in Tier],
        default=Tier.QUERY.value,
        help="rescale tier of a change of parallelism",
    )
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two evaluations of the policy")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the scheduler, see docs/reference/options.md",
    )
    parser.add_argument("--begin", type=float, default=0.0, metavar="DAYS", help="skip the first days of the trace")
    parser.add_argument("--days", type=float, help="number of days to simulate")
    parser.add_argument("--alone", action="store_true", help="omit the baselines")
    parser.add_argument(
        "--beside", action="append", metavar="RULE", help="a baseline; without this option, all of them"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a baseline is better")
    parser.add_argument("--json", type=Path, help="file for the metrics")
    parser.add_argument("--plot", type=Path, help="file for the plot (needs matplotlib)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
