"""The commands where Airflow loads no commands of providers (3.1): `python -m airflow_adaptive jobs`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence

from airflow_adaptive._airflow.internals import CLICommand, GroupCommand
from airflow_adaptive._web.cli.definition import get_adaptive_cli_commands


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name; None for those of the process. Raises `SystemExit` for invalid arguments, and as the command."""
    parser = ArgumentParser(prog="python -m airflow_adaptive")
    for adaptive in get_adaptive_cli_commands():
        if isinstance(adaptive, GroupCommand):
            _add_commands(parser, adaptive.subcommands)
    parsed = parser.parse_args(arguments)
    parsed.func(parsed)


def _add_commands(parser: ArgumentParser, commands: Iterable[CLICommand]) -> None:
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        added = parsers.add_parser(command.name, help=command.help, description=command.help)
        if isinstance(command, GroupCommand):
            _add_commands(added, command.subcommands)
        else:
            for argument in command.args:
                argument.add_to_parser(added)
            added.set_defaults(func=command.func)


if __name__ == "__main__":
    main()
