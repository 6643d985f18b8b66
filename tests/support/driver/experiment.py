"""Trials on real Spark that are made once, in a process of their own, for many tests to look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.repository import ROOT


def run_experiment(experiment: ModuleType, directory: Path) -> Any:
    """What the trials of that module found: it takes a directory as its argument, and leaves there its file `RESULT`."""
    root = str(ROOT)
    done = subprocess.run(
        [sys.executable, str(experiment.__file__), str(directory)],
        env={**os.environ, "PYTHONPATH": root, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((directory / experiment.RESULT).read_text())
