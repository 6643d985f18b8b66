"""The command line over the database of the API's tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.airflow.airflow_app import AirflowApp


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(airflow_app: AirflowApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `airflow adaptive ...` as Airflow does, in this process."""
    from airflow.cli import cli_parser  # noqa: PLC0415  once the database is set

    parser = cli_parser.get_parser()

    def run(*words: str) -> Ran:
        monkeypatch.setattr("sys.argv", ["airflow", "adaptive", *words])
        capsys.readouterr()
        code = 0
        try:
            args = parser.parse_args(["adaptive", *words])
            args.func(args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        output = capsys.readouterr()
        return Ran(code, output.out, output.err)

    return run
