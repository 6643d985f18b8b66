"""The commands of `airflow adaptive`, as Airflow's command line wants them told.

This module is imported whenever any `airflow` command starts: what the commands need is imported when one of them runs.
"""

from __future__ import annotations

from typing import Final

from airflow.cli.cli_config import (
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

COMMANDS: Final = "airflow_adaptive.cli.commands"

WHAT: Final = ("transitions", "decisions", "rescales", "failures")
"""What `history` can tell."""

JOB = Arg(("job",), help="Id of the job: the name of its Airflow Asset")
STATE = Arg(("--state",), help="Only jobs in this state; may be given several times", action="append")
DAG_ID = Arg(("--dag-id",), help="Only jobs that this DAG names")
BOUNDS = Arg(
    ("bounds",),
    help=(
        "VERTEX=LOWER:UPPER, or VERTEX=N for both; every vertex of the job, once. The name may be left out where there is "
        "only one. -1 resets a bound to its default"
    ),
    nargs="+",
    metavar="BOUNDS",
)
IF_VERSION = Arg(
    ("--if-version",), help="Change nothing unless this is the version that is there (`requirements get` tells it)"
)
LASTS = Arg(("--for",), help="For how long they hold: '2 h', '30 min', seconds", dest="lasts")
UNTIL = Arg(("--until",), help="Until when they hold: ISO 8601 with a time zone, as 2026-01-31T18:00:00Z")
PREVIEW = Arg(("--preview",), help="Only tell what this would lead to now", action="store_true", default=False)
HISTORY_OF = Arg(("--of",), help="What to tell (default: transitions)", choices=WHAT, default=WHAT[0])
LIMIT = Arg(("--limit",), help="The newest so many (default: 20)", type=positive_int(allow_zero=False), default=20)


def get_adaptive_cli_commands() -> list[CLICommand]:
    """The command group `adaptive` (`provider_info`: cli)."""
    return [
        GroupCommand(
            name="adaptive",
            help="Manage adaptive Spark jobs",
            description="See adaptive Spark jobs, change the bounds of their parallelism, stop and resume them.",
            subcommands=(
                _command("jobs", "List jobs", "list_jobs", STATE, DAG_ID, ARG_OUTPUT),
                _command("show", "Show all that is at hand of a job", "show_job", JOB, ARG_OUTPUT),
                GroupCommand(
                    name="requirements", help="Bounds of a job's parallelism (FLIP-291)", subcommands=_requirements()
                ),
                _command("cancel", "Have a job end for good, at a batch boundary", "cancel_job", JOB, ARG_YES),
                _command("suspend", "Have a job stop with a savepoint, to be resumed", "suspend_job", JOB),
                _command("resume", "Have a suspended job go on from where it stopped", "resume_job", JOB),
                _command(
                    "history",
                    "What a job did and why, newest first",
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
            "Set the bounds of every vertex, while the job runs",
            "set_requirements",
            *(JOB, BOUNDS, IF_VERSION, LASTS, UNTIL, PREVIEW, ARG_OUTPUT),
        ),
        _command(
            "lift",
            "Have the bounds hold no more that were set: those of its policy, a calendar or the DAG come back",
            "lift_requirements",
            JOB,
        ),
    )


def _command(name: str, help_text: str, function: str, *args: Arg) -> ActionCommand:
    return ActionCommand(
        name=name, help=help_text, func=lazy_load_command(f"{COMMANDS}.{function}"), args=(*args, ARG_VERBOSE)
    )
