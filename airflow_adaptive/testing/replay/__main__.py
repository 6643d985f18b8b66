"""Replays recorded histories of the scheduler and tells what is not as it was.

python -m airflow_adaptive.testing.replay FILE_OR_DIRECTORY ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_adaptive.testing.replay.histories import History, HistoryError, replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay; return 0 if all is as it was."""
    parser = argparse.ArgumentParser(prog="airflow_adaptive.testing.replay.__main__", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="histories, or directories of them")
    differing = 0
    for file in _files(parser.parse_args(arguments).paths):
        lines = _lines(file)
        differing += len(lines) > 1
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if differing else 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.json")) if path.is_dir() else [path]


def _lines(file: Path) -> list[str]:
    try:
        history = History.read(file)
        differences = list(replay(history))
    except HistoryError as error:
        return [f"{file.name}: can't be replayed", f"  {error}"]
    verdict = f"{len(differences)} differ" if differences else "as recorded"
    head = f"{file.name}: {history.title} ({history.source}): {len(history.steps)} steps, {verdict}"
    return [head, *(f"  {told}" for told in differences)]


if __name__ == "__main__":
    sys.exit(main())
