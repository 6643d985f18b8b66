"""Implementation of the commands `airflow adaptive`, with the functions of the REST API.

The commands need access to Airflow's metadata database, as Airflow's other commands do. Every user who can run the commands has all
permissions. Each change adds an entry with the user of the operating system to Airflow's event log. The commands write errors to the
standard error stream. The exit code is 1 after an error, and 2 after a usage error.
"""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final, NoReturn

from pydantic_core import to_jsonable_python
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import (
    AirflowConsole,
    act_as_server,
    action_cli,
    getuser,
    providers_configuration_loaded,
    suppress_logs_and_warning,
)
from airflow_adaptive._core.requirements.control_requests import Requester
from airflow_adaptive._core.requirements.dry_run import preview
from airflow_adaptive._core.requirements.request_bodies import encode_requirements, version_of
from airflow_adaptive._core.scheduler.config.parsing import parse_duration
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.view import SchedulerStateName
from airflow_adaptive._web.api import job_details
from airflow_adaptive._web.cli import tables
from airflow_adaptive._web.data import user_requests
from airflow_adaptive._web.data.errors import RequestRefusedError, not_found
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_job, find_jobs, reading
from airflow_adaptive._web.data.published_state import PublishedState, read_all_published, read_published

WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class BoundsError(ValueError):
    """Invalid bounds. `violations` lists all violations."""

    def __init__(self, violations: Sequence[str]) -> None:
        super().__init__("; ".join(violations))
        self.violations = tuple(violations)


def body_of(texts: Sequence[str], vertices: Sequence[str]) -> dict[str, Any]:
    """Return the request body of FLIP-291. The validation of the body reports bounds that are not numbers.

    Raises:
        BoundsError: a vertex is missing or ambiguous.
    """
    parsed = [_split(text, vertices) for text in texts]
    violations = [
        f"{bounds!r} names no vertex. Write VERTEX=LOWER:UPPER. The vertices of the job are {', '.join(vertices)}"
        for vertex, bounds in parsed
        if vertex is None
    ]
    times = Counter(vertex for vertex, _ in parsed if vertex is not None)
    violations += [f"vertex {vertex!r} is specified {count} times" for vertex, count in times.items() if count > 1]
    if violations:
        raise BoundsError(violations)
    return {str(vertex): {"parallelism": _parallelism(bounds)} for vertex, bounds in parsed}


def _split(text: str, vertices: Sequence[str]) -> tuple[str | None, str]:
    """Return the vertex, None without a vertex, and the bounds. The name of a vertex may contain `=`."""
    vertex, named, bounds = text.rpartition("=")
    if named:
        return vertex, bounds
    return (vertices[0] if len(vertices) == 1 else None), bounds


def _parallelism(bounds: str) -> dict[str, Any]:
    lower, both, upper = bounds.partition(":")
    return {"lowerBound": _number(lower), "upperBound": _number(upper if both else lower)}


def _number(text: str) -> int | str:
    return int(text) if WHOLE_NUMBER.fullmatch(text) else text


VIA: Final = "CLI"
"""Interface of the requests."""

POLL_INTERVAL_S: Final = 2.0
"""Interval between two reads of the state of a job."""

BAD_USAGE: Final = 2
"""Exit code after a usage error, as of argparse."""

HISTORY_ROWS: Final[Mapping[str, Callable[[Any], tables.Row]]] = {
    "transitions": tables.transition,
    "decisions": tables.decision,
    "rescales": tables.rescale,
    "failures": tables.failure,
}
"""Kind of history -> function that converts an item to a row."""

Command = Callable[[Namespace], None]


def _reads(command: Command) -> Command:
    """Wrap a command that changes nothing."""
    return suppress_logs_and_warning(providers_configuration_loaded(_with_errors(command)))


def _changes(command: Command) -> Command:
    """Wrap a command that changes a job. Airflow logs the call."""
    changes: Command = action_cli(_reads(command))
    return changes


def _with_errors(command: Command) -> Command:
    """Wrap a command so that it writes errors to the standard error stream, one line per violation."""

    @wraps(command)
    def wrapped(args: Namespace) -> None:
        act_as_server()
        try:
            command(args)
        except RequestRefusedError as error:
            _fail(error.violations or [error.detail], 1, error.kind)
        except BoundsError as error:
            _fail(error.violations, BAD_USAGE)

    return wrapped


# ---- reading --------------------------------------------------------------------------------------------------------


@_reads
def list_jobs(args: Namespace) -> None:
    """List all jobs, sorted by name."""
    _require_states(args.state or [], [*SchedulerStateName])
    with reading() as session:
        jobs = [job for job in find_jobs(session) if args.dag_id is None or args.dag_id in job.dag_ids]
        states = read_all_published(jobs, session, job_details.ITEM_KEYS)
        items = [job_details.item(job, published) for job, published in zip(jobs, states, strict=True)]
    found = [item for item in items if args.state is None or item.state in args.state]
    _print(args, found, map(tables.job, found))


@_reads
def show_job(args: Namespace) -> None:
    """Show all details of a job."""
    job = _job(args.job)
    found = job_details.details(job, _published(job))
    _print(args, found, tables.details(found))


@_reads
def show_history(args: Namespace) -> None:
    """Show transitions, decisions, rescales or failures of a job, newest first."""
    job = _job(args.job)
    published = _published(job)
    items = tables.newest(getattr(published, args.of), args.limit)
    _print(args, items, map(HISTORY_ROWS[args.of], items))


@_reads
def get_requirements(args: Namespace) -> None:
    """Show the bounds of every vertex, as set by a user, the rescale policy, a calendar or the DAG, in this order."""
    job = _job(args.job)
    published = _published(job)
    state = user_requests.known_state(job, published)
    _print_requirements(args, published.resolved_requirements(state, datetime.now(UTC)), state)


@_reads
def preview_deployment(args: Namespace) -> None:
    """Show what a deployment of a job changes before it takes effect."""
    job = _job(args.job)
    published = _published(job)
    state = user_requests.known_state(job, published)
    with reading() as session:
        found = job_details.deployments(state, published, session)
    _print(args, found, tables.deployments(found))


@_reads
def wait_for_job(args: Namespace) -> None:
    """Wait until a job is in one of the states, also if the job does not exist yet."""
    _require_states(args.state, [*SchedulerStateName, *Outcome])
    deadline = time.monotonic() + _timeout_s(args.timeout)
    while True:
        with reading() as session:
            found = find_job(args.job, session)
            status = "unknown to Airflow" if found is None else read_published(found, session, ()).summary.status
        if status in args.state:
            _write(f"Job {args.job!r} is {status}.")
            return
        if time.monotonic() >= deadline:
            _fail(
                [f"Job {args.job!r} is {status}, and not {' or '.join(args.state)} within {args.timeout}."],
                1,
                "timeout",
            )
        time.sleep(POLL_INTERVAL_S)


@_reads
def show_logs(args: Namespace) -> None:
    """Show the end of the output of the newest driver of a job."""
    job = _job(args.job)
    from airflow_adaptive._web.data import job_files  # noqa: PLC0415  The other commands do not need the clients of clusters.

    found = job_files.driver_output(job, _published(job), args.lines)
    if args.output in ("json", "yaml"):
        _print(args, found, ())
        return
    for name in ("stdout", "stderr"):
        _write(f"==> {name} of {found.submission_id} <==")
        sys.stdout.writelines(f"{line}\n" for line in getattr(found, name))
    if found.waits:
        _write(f"==> executors <==\n{found.waits}")


@_reads
def doctor(args: Namespace) -> None:
    """Check what a job needs. The exit code is 1 if a check failed."""
    from airflow_adaptive._web.cli.doctor import Result, check_all  # noqa: PLC0415  as for `show_logs`

    job = None if args.job is None else _job(args.job)
    checks = check_all(args.connection, job, None if job is None else _published(job), args.job_directory)
    if args.output in ("json", "yaml"):
        _print(args, checks, ())
    else:
        sys.stdout.writelines(f"{check.result:8} {check.name:14} {check.text}\n" for check in checks)
    if any(check.result is Result.FAILED for check in checks):
        sys.exit(1)


# ---- changing -------------------------------------------------------------------------------------------------------


@_changes
def set_requirements(args: Namespace) -> None:
    """Set the bounds of every vertex, or preview the consequence."""
    job = _job(args.job)
    published = _published(job)
    state = user_requests.known_state(job, published)
    body = body_of(args.bounds, [vertex.name for vertex in state.job.vertices])
    if args.preview:
        state = user_requests.check_rescalable(job, published)
        result = job_details.preview(
            preview(state, user_requests.resolved_override(body, state, published), datetime.now(UTC)), state
        )
        _print(args, result, tables.preview(result))
        return
    expires_at = user_requests.expiry_of(args.duration, args.until)
    with reading() as session:
        requirements = user_requests.set_requirements(
            job, _requester(), session, body, lambda version: args.if_version in (None, version), expires_at
        )
    _print_requirements(args, requirements, state)


@_changes
def clear_requirements(args: Namespace) -> None:
    """Clear the requirements override of a job."""
    job = _job(args.job)
    with reading() as session:
        user_requests.clear_requirements(job, _requester(), session)
    _write(
        f"The requirements override of job {job.name!r} is cleared. Its policy, a calendar or its DAG sets the bounds."
    )


@_changes
def cancel_job(args: Namespace) -> None:
    """Cancel a job permanently."""
    job = _job(args.job)
    _require_confirmation(args, f"Cancel job {job.name!r} permanently?", f"Job {job.name!r} was not canceled")
    _request(user_requests.cancel, job, "stops permanently at a batch boundary")


@_changes
def suspend_job(args: Namespace) -> None:
    """Suspend a job."""
    _request(user_requests.suspend, _job(args.job), "stops at a batch boundary, so that it can be resumed")


@_changes
def resume_job(args: Namespace) -> None:
    """Resume a suspended job."""
    _request(user_requests.resume, _job(args.job), "continues from its last checkpoint")


@_changes
def reset_job(args: Namespace) -> None:
    """Set the checkpoints of a job that has ended aside."""
    from airflow_adaptive._web.data import job_files  # noqa: PLC0415  as for `show_logs`

    job = _job(args.job)
    question = (
        f"Read the sources of job {job.name!r} from the beginning at its next start? Its sinks receive the data again."
    )
    _require_confirmation(args, question, f"Job {job.name!r} was not reset")
    with reading() as session:
        published = user_requests.require_ended(job, _requester(), session, "adaptive_reset")
    aside = job_files.set_checkpoints_aside(job, published)
    _write(
        f"The next start of job {job.name!r} reads from the beginning. Its checkpoints are in {aside}; delete them when you do not need them any "
        "more. Move the output of a file sink to another place, too."
    )


# ---- helper functions -----------------------------------------------------------------------------------------------


def _job(name: str) -> Job:
    """Return the job with this name. Raises `RequestRefusedError`: the job does not exist."""
    with reading() as session:
        found = find_job(name, session)
    if found is None:
        raise not_found(
            f"There is no adaptive job {name!r}. `airflow adaptive jobs` lists all jobs. A job exists after its first run."
        )
    return found


def _published(job: Job) -> PublishedState:
    """Read the published state of a job."""
    with reading() as session:
        return read_published(job, session)


def _require_states(states: Iterable[str], known: Sequence[str]) -> None:
    unknown = [state for state in states if state not in known]
    if unknown:
        _fail([f"There is no state {state!r}. The states are {', '.join(known)}." for state in unknown], BAD_USAGE)


def _timeout_s(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        _fail([f"--timeout: {error}"], BAD_USAGE)


def _requester() -> Requester:
    return Requester(requested_by=getuser(), via=VIA)


def _request(request: Callable[[Job, Requester, Session], None], job: Job, what: str) -> None:
    with reading() as session:
        request(job, _requester(), session)
    _write(f"Requested that job {job.name!r} {what}.")


def _require_confirmation(args: Namespace, question: str, refusal: str) -> None:
    try:
        is_confirmed = args.yes or input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        is_confirmed = False
    if not is_confirmed:
        _fail([f"{refusal}, because this was not confirmed. Use --yes to confirm."], 1, "not-confirmed")


def _print_requirements(args: Namespace, requirements: Requirements, state: SchedulerState) -> None:
    version = version_of(requirements)
    data = {"version": version, "requirements": encode_requirements(requirements)}
    _print(args, data, tables.requirements(requirements, state, version))


def _print(args: Namespace, data: Any, rows: Iterable[tables.Row]) -> None:
    """Print the response body of the REST API as JSON or YAML, or rows as a table, according to the option --output."""
    console = AirflowConsole()
    match args.output:
        case "json":
            console.print_as_json(to_jsonable_python(data, timedelta_mode="float"))
        case "yaml":
            console.print_as_yaml(to_jsonable_python(data, timedelta_mode="float"))
        case output:
            console.print_as([*rows], output)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _fail(violations: Iterable[str], exit_code: int, code: str = "usage") -> NoReturn:
    sys.stderr.writelines(f"{violation} [{code}]\n" for violation in violations)
    sys.exit(exit_code)
