"""Replays recorded histories of the scheduler, and prints the differences from the recorded outcomes.

python -m tests.lab.replay FILE_OR_DIRECTORY ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.lab.replay.histories import History, HistoryError, replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay the histories. Return the exit code, which is 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="tests.lab.replay", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="files of histories, or directories with such files")
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
        return [f"{file.name}: cannot be replayed", f"  {error}"]
    result = f"differences: {len(differences)}" if differences else "as recorded"
    head = f"{file.name}: {history.title} ({history.source}): {len(history.steps)} steps, {result}"
    return [head, *(f"  {difference}" for difference in differences)]


if __name__ == "__main__":
    sys.exit(main())
