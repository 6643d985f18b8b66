"""What the commands of `airflow adaptive` do: the same as the REST API, through the same functions.

They run where Airflow's other commands run, with access to its database, and whoever may start them may do all that they do. Each
change leaves a line in Airflow's event log with the user of the operating system. What is wrong is told on standard error, and
the exit code is 1 then; 2 if the command was typed wrongly.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final, NoReturn

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.platform import getuser
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from pydantic import BaseModel

from airflow_adaptive.cli import bounds, tables
from airflow_adaptive.plugin.api import flink_rescales, job_details
from airflow_adaptive.plugin.api.problems import ProblemError, not_found
from airflow_adaptive.plugin.api.schemas import SchedulerStateName
from airflow_adaptive.plugin.data import control_requests, metadata_database
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.plugin.data.published_state import Mirrored, all_mirrored, mirrored
from airflow_adaptive.ports import Requester
from airflow_adaptive.runtime.requirements.control_requests import encode_requirements
from airflow_adaptive.runtime.requirements.dry_run import preview
from airflow_adaptive.runtime.requirements.request_bodies import version_of
from airflow_adaptive.scheduler.requirements import Requirements
from airflow_adaptive.scheduler.state import SchedulerState

VIA: Final = "CLI"

BAD_USAGE: Final = 2
"""Exit code of argparse, too."""

HISTORY_ROWS: Final[Mapping[str, Callable[[Any], tables.Row]]] = {
    "transitions": tables.transition,
    "decisions": tables.decision,
    "rescales": tables.rescale,
    "failures": tables.failure,
}
"""What `history` tells -> how a table shows one of them."""

Command = Callable[[Namespace], None]


def _reads(command: Command) -> Command:
    """A command that changes nothing."""
    return suppress_logs_and_warning(providers_configuration_loaded(_explained(command)))


def _changes(command: Command) -> Command:
    """A command that changes a job: Airflow writes down that it was called."""
    changes: Command = action_cli(_reads(command))
    return changes


def _explained(command: Command) -> Command:
    """What can't be done is told on standard error, one line for each thing that is wrong."""

    @wraps(command)
    def explained(args: Namespace) -> None:
        try:
            command(args)
        except ProblemError as problem:
            _fail(problem.errors or [problem.detail], 1)
        except bounds.BoundsError as error:
            _fail(error.violations, BAD_USAGE)

    return explained


# ---- reading --------------------------------------------------------------------------------------------------------


@_reads
def list_jobs(args: Namespace) -> None:
    """List the jobs that there are, by name."""
    unknown = [state for state in args.state or [] if state not in {*SchedulerStateName}]
    if unknown:
        known = ", ".join(SchedulerStateName)
        _fail([f"There is no state {state!r}; states are {known}." for state in unknown], BAD_USAGE)
    with metadata_database.reading() as session:
        jobs = [
            job for job in metadata_database.find_jobs(session) if args.dag_id is None or args.dag_id in job.dag_ids
        ]
        items = [job_details.item(job, seen) for job, seen in zip(jobs, all_mirrored(jobs, session), strict=True)]
    shown = [item for item in items if args.state is None or item.state in args.state]
    _print(args, shown, map(tables.job, shown))


@_reads
def show_job(args: Namespace) -> None:
    """Show all that is at hand of a job."""
    job = _job(args.job)
    found = job_details.details(job, _seen(job))
    _print(args, found, tables.details(found))


@_reads
def show_history(args: Namespace) -> None:
    """Show what a job did and why, newest first."""
    job = _job(args.job)
    seen = _seen(job)
    items = tables.newest(
        job_details.failures(seen.state) if args.of == "failures" else getattr(seen, args.of), args.limit
    )
    data = flink_rescales.history(job.name, items[::-1], seen.groups) if args.of == "rescales" else items
    _print(args, data, map(HISTORY_ROWS[args.of], items))


@_reads
def get_requirements(args: Namespace) -> None:
    """Show the bounds of every vertex: those that somebody has set, or else those of its policy, a calendar or the DAG."""
    job = _job(args.job)
    seen = _seen(job)
    state = control_requests.known_state(job, seen)
    _print_requirements(args, seen.resolved_requirements(state, datetime.now(UTC)), state)


# ---- changing -------------------------------------------------------------------------------------------------------


@_changes
def set_requirements(args: Namespace) -> None:
    """Set the bounds of every vertex, or tell what that would lead to."""
    job = _job(args.job)
    seen = _seen(job)
    state = control_requests.known_state(job, seen)
    body = bounds.body_of(args.bounds, [vertex.name for vertex in state.job.vertices])
    if args.preview:
        state = control_requests.check_rescalable(job, seen)
        told = job_details.preview(
            preview(state, control_requests.resolved_override(body, state, seen), datetime.now(UTC)), state
        )
        _print(args, told, tables.preview(told))
        return
    until = control_requests.expires(args.lasts, args.until)
    asked = control_requests.set_requirements(
        job, _requester(), body, lambda version: args.if_version in (None, version), until
    )
    _print_requirements(args, asked, state)


@_changes
def lift_requirements(args: Namespace) -> None:
    """Have the bounds hold no more that were set."""
    job = _job(args.job)
    control_requests.lift_requirements(job, _requester())
    _say(f"What was set of job {job.name!r} holds no more: its policy, a calendar or its DAG says its bounds.")


@_changes
def cancel_job(args: Namespace) -> None:
    """Have a job end for good."""
    job = _job(args.job)
    if not (args.yes or _is_confirmed(f"Cancel job {job.name!r} for good? [y/N] ")):
        _fail([f"Job {job.name!r} was not canceled: nobody confirmed it (--yes does)."], 1)
    control_requests.cancel(job, _requester())
    _say(f"Job {job.name!r} is asked to end for good, at a batch boundary.")


@_changes
def suspend_job(args: Namespace) -> None:
    """Have a job stop with a savepoint."""
    job = _job(args.job)
    control_requests.suspend(job, _requester())
    _say(f"Job {job.name!r} is asked to stop with a savepoint.")


@_changes
def resume_job(args: Namespace) -> None:
    """Have a suspended job go on."""
    job = _job(args.job)
    control_requests.resume(job, _requester())
    _say(f"Job {job.name!r} is asked to go on from where it stopped.")


# ---- what they share ------------------------------------------------------------------------------------------------


def _job(name: str) -> Job:
    """The job of this name. Raises `ProblemError` if there is none."""
    with metadata_database.reading() as session:
        found = metadata_database.find_job(name, session)
    if found is None:
        raise not_found(
            f"There is no adaptive job {name!r}: `airflow adaptive jobs` lists them. A job is known from its first run on."
        )
    return found


def _seen(job: Job) -> Mirrored:
    """What the job shows."""
    with metadata_database.reading() as session:
        return mirrored(job, session)


def _requester() -> Requester:
    return Requester(requested_by=getuser(), via=VIA)


def _is_confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _print_requirements(args: Namespace, requirements: Requirements, state: SchedulerState) -> None:
    version = version_of(requirements)
    data = {"version": version, "requirements": encode_requirements(requirements)}
    _print(args, data, tables.requirements(requirements, state, version))


def _print(args: Namespace, data: Any, rows: Iterable[tables.Row]) -> None:
    """Print what the REST API would answer, or rows, as whoever typed the command likes it."""
    console = AirflowConsole()
    match args.output:
        case "json":
            console.print_as_json(_plain(data))
        case "yaml":
            console.print_as_yaml(_plain(data))
        case output:
            console.print_as([*rows], output)


def _plain(data: Any) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json")
    return [_plain(item) for item in data] if isinstance(data, list) else data


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _fail(violations: Iterable[str], code: int) -> NoReturn:
    sys.stderr.writelines(f"{finding}\n" for finding in violations)
    sys.exit(code)
