"""The input of a job: files of keys, written at a fixed rate that does not depend on the reader. Each run has the same files.

`python -m tests.lab.benchmarks.rescale.feed <folder> <keys> <files>` writes until it has written so many files; once there is a
file named `hurry` beside the folder, it writes the rest at once. When each file was there, `journal.csv` tells.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILES_PER_S: Final = 4
ROWS: Final = 250
"""In each file but those of the seed."""

SEEDS: Final = 8
"""Files that hold each key once, so that the state has its size before anything is measured; their numbers are negative."""

SCHEMA: Final = "k INT, f INT"
"""Key, and number of the file."""

HURRY: Final = "hurry"
JOURNAL: Final = "journal.csv"


def keys_of(number: int, keys: int) -> list[int]:
    """The keys in a file, by its number."""
    if number < 0:
        return list(range(-1 - number, keys, SEEDS))
    chosen = random.Random(number)
    return [chosen.randrange(keys) for _ in range(ROWS)]


def truth(keys: int, files: int) -> Counter[int]:
    """How often each key is in so many files and in the seed."""
    counted = Counter(range(keys))
    for number in range(files):
        counted.update(keys_of(number, keys))
    return counted


def checksum(counts: Mapping[int, int]) -> str:
    """The same for the same counts."""
    lines = "".join(f"{key} {counts[key]}\n" for key in sorted(counts))
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def put(folder: Path, number: int, keys: int) -> None:
    """Let a file appear at once: it is written beside the folder and then renamed."""
    name = f"seed{-number}.csv" if number < 0 else f"{number:06d}.csv"
    hidden = folder.parent / f".{name}"
    hidden.write_text("".join(f"{key},{number}\n" for key in keys_of(number, keys)))
    hidden.rename(folder / name)


def read_journal(text: str) -> dict[int, float]:
    """When each file was there, seconds; a line that is being written does not count."""
    lines = [line.split(",") for line in text.split("\n")[:-1]]
    return {int(number): float(at) for number, at in lines}


def feed(folder: Path, keys: int, files: int) -> None:
    """Write them all."""
    begun = time.monotonic()
    hurry = folder.parent / HURRY
    with (folder.parent / JOURNAL).open("w", buffering=1) as journal:
        for number in range(files):
            if not hurry.exists():
                time.sleep(max(0.0, begun + number / FILES_PER_S - time.monotonic()))
            put(folder, number, keys)
            journal.write(f"{number},{time.time():.3f}\n")


if __name__ == "__main__":
    feed(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
