"""`python -m airflow_adaptive.local.demo`: plays the story, prints how it went, stops everything; exit code 0 only if the output is right."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import httpx

from airflow_adaptive.local.airflow import LocalAirflowError
from airflow_adaptive.local.demo.report import Reporter
from airflow_adaptive.local.demo.stage import Stage, StageError
from airflow_adaptive.local.demo.story import Story, StoryError
from airflow_adaptive.local.errors import LocalClusterError

OK, FAILED, INTERRUPTED = 0, 1, 130


def main() -> int:
    """Play the story; return the exit code."""
    options = read_options()
    signal.signal(signal.SIGTERM, interrupt)
    reporter = Reporter()
    try:
        with Stage(options.directory, options.days_per_second, reporter) as stage:
            right = Story(stage, reporter).play()
            reporter.say("stopping everything")
    except KeyboardInterrupt:
        reporter.say("interrupted: everything is stopped")
        return INTERRUPTED
    except (LocalAirflowError, LocalClusterError, StageError, StoryError, TimeoutError, httpx.HTTPError) as error:
        reporter.say(f"FAILED: {error}")
        reporter.say(f"logs are in {options.directory.resolve()}")
        return FAILED
    reporter.say("done" if right else "FAILED: the output differs")
    return OK if right else FAILED


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m airflow_adaptive.local.demo", description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".demo"), help="for everything; removed first")
    parser.add_argument("--days-per-second", type=float, default=4.0, help="speed of the replayed year")
    return parser.parse_args()


def interrupt(signal_number: int, frame: FrameType | None) -> None:
    """Treat a polite request to end like Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
