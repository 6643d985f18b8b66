"""Definitions of the commands `airflow adaptive` for Airflow's command line.

Every `airflow` command imports this module. Therefore the commands import their dependencies only when they run.
"""

from __future__ import annotations

from typing import Final

from airflow_adaptive._airflow.internals import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
    positive_int,
)

COMMANDS: Final = "airflow_adaptive._web.cli.commands"

HISTORY_KINDS: Final = ("transitions", "decisions", "rescales", "failures")
"""Kinds of history."""

JOB = Arg(("job",), help="Name of the job: its id, or DAG:TASK:ID for a job of a mapped task")
STATE = Arg(("--state",), help="List only jobs in this state; the option can be repeated", action="append")
DAG_ID = Arg(("--dag-id",), help="List only jobs that this DAG names")
BOUNDS = Arg(
    ("bounds",),
    help=(
        "VERTEX=LOWER:UPPER, or VERTEX=N for equal bounds; once for every vertex of the job. The name is optional for a job "
        "with one vertex. -1 resets a bound to its default"
    ),
    nargs="+",
    metavar="BOUNDS",
)
IF_VERSION = Arg(
    ("--if-version",),
    help="Change the bounds only if this is their current version (`requirements get` shows the version)",
)
DURATION = Arg(("--duration",), help="Time until the bounds expire: '2 h', '30 min', or seconds")
UNTIL = Arg(
    ("--until",), help="Time at which the bounds expire: ISO 8601 with a time zone, for example 2026-01-31T18:00:00Z"
)
PREVIEW = Arg(
    ("--preview",), help="Show the consequence of the bounds without a change", action="store_true", default=False
)
HISTORY_OF = Arg(
    ("--of",), help="Kind of history (default: transitions)", choices=HISTORY_KINDS, default=HISTORY_KINDS[0]
)
WAIT_STATE = Arg(
    ("--state",),
    help="State or outcome to wait for, for example Executing or FINISHED; the option can be repeated",
    action="append",
    required=True,
)
TIMEOUT = Arg(("--timeout",), help="Longest time to wait: '10 min' (the default), '30 s', or seconds", default="10 min")
LINES = Arg(
    ("--lines",), help="Last lines of each stream (default: 200)", type=positive_int(allow_zero=False), default=200
)
FROM_BEGINNING = Arg(
    ("--from-beginning",),
    help="Set the checkpoints aside, so that the next start reads the sources from the beginning",
    action="store_true",
    required=True,
)
CONNECTION = Arg(
    ("connection",), help="Connection of the cluster (default: spark_default, or the one of --job)", nargs="?"
)
DOCTOR_JOB = Arg(("--job",), help="Check the connection, the directory and the driver of this job, too")
JOB_DIRECTORY = Arg(("--job-directory",), help="Check this job directory, for example file:///shared/jobs")
LIMIT = Arg(("--limit",), help="Maximum number of items (default: 20)", type=positive_int(allow_zero=False), default=20)


def get_adaptive_cli_commands() -> list[CLICommand]:
    """Return the command group `adaptive` (`provider_info`: cli)."""
    return [
        GroupCommand(
            name="adaptive",
            help="Manage adaptive Spark jobs",
            description="List adaptive Spark jobs, change the bounds of their parallelism, and stop or resume the jobs.",
            subcommands=(
                _command("jobs", "List jobs", "list_jobs", STATE, DAG_ID, ARG_OUTPUT),
                _command("show", "Show all details of a job", "show_job", JOB, ARG_OUTPUT),
                GroupCommand(
                    name="requirements", help="Bounds of a job's parallelism (FLIP-291)", subcommands=_requirements()
                ),
                _command(
                    "deployment",
                    "Preview a deployment: what it changes before it takes effect, and how it takes effect",
                    "preview_deployment",
                    *(JOB, ARG_OUTPUT),
                ),
                _command("cancel", "Stop a job permanently at a batch boundary", "cancel_job", JOB, ARG_YES),
                _command("suspend", "Stop a job at a batch boundary, so that it can be resumed", "suspend_job", JOB),
                _command("resume", "Resume a suspended job from its last checkpoint", "resume_job", JOB),
                _command("wait", "Wait until a job is in a state", "wait_for_job", JOB, WAIT_STATE, TIMEOUT),
                _command("logs", "Show the end of the driver's log", "show_logs", JOB, LINES, ARG_OUTPUT),
                _command(
                    "reset",
                    "Let the next start of a job that has ended read from the beginning",
                    "reset_job",
                    *(JOB, FROM_BEGINNING, ARG_YES),
                ),
                _command(
                    "doctor",
                    "Check versions, Airflow, the cluster, the job directory and a job, and show what to do",
                    "doctor",
                    *(CONNECTION, DOCTOR_JOB, JOB_DIRECTORY, ARG_OUTPUT),
                ),
                _command(
                    "history",
                    "Show transitions, decisions, rescales or failures, newest first",
                    "show_history",
                    JOB,
                    HISTORY_OF,
                    LIMIT,
                    ARG_OUTPUT,
                ),
            ),
        )
    ]


def _requirements() -> tuple[CLICommand, ...]:
    return (
        _command("get", "Show the bounds of every vertex", "get_requirements", JOB, ARG_OUTPUT),
        _command(
            "set",
            "Set the bounds of every vertex of a running job",
            "set_requirements",
            *(JOB, BOUNDS, IF_VERSION, DURATION, UNTIL, PREVIEW, ARG_OUTPUT),
        ),
        _command(
            "clear",
            "Clear the requirements override; the bounds of the policy, a calendar or the DAG become active again",
            "clear_requirements",
            JOB,
        ),
    )


def _command(name: str, help_text: str, function: str, *args: Arg) -> ActionCommand:
    return ActionCommand(
        name=name, help=help_text, func=lazy_load_command(f"{COMMANDS}.{function}"), args=(*args, ARG_VERBOSE)
    )
