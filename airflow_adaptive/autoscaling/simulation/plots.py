"""Load and slots over time as a picture, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.autoscaling.simulation.job import Query
from airflow_adaptive.autoscaling.simulation.report import slots_for
from airflow_adaptive.autoscaling.simulation.trace import Trace
from airflow_adaptive.autoscaling.simulation.world import Run

HOUR = 3600.0


def require() -> Any:
    """matplotlib, drawing into files.

    Raises:
        RescalePolicyError: it is not installed.
    """
    try:
        matplotlib = import_module("matplotlib")
        matplotlib.use("Agg")
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        fix = "matplotlib is not installed: pip install 'airflow-adaptive[plots]', or leave --plot out"
        raise RescalePolicyError("plot", [fix]) from error


def draw(path: Path, trace: Trace, query: Query, runs: Mapping[str, Run]) -> None:
    """Slots that the load took and slots that were held, a panel for each run.

    Raises:
        RescalePolicyError: matplotlib is missing, or the file can't be written.
    """
    pyplot = require()
    figure, axes = pyplot.subplots(len(runs), 1, sharex=True, squeeze=False, figsize=(12, 2.2 * len(runs)))
    needed = [slots_for(query, rate) for rate in trace.rates]
    for axis, (name, run) in zip(axes[:, 0], runs.items(), strict=True):
        axis.step([at / HOUR for at in trace.times[:-1]], needed, where="post", linewidth=0.6, label="the load takes")
        held = [*run.held, (run.end, run.held[-1][1])]
        axis.step(
            [at / HOUR for at, _ in held], [slots for _, slots in held], where="post", linewidth=0.8, label="held"
        )
        axis.set_title(f"{name}: {run.rescales} rescales", fontsize=9)
        axis.set_ylabel("slots")
    axes[0, 0].legend(loc="upper right", fontsize=8)
    axes[-1, 0].set_xlabel("hours")
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise RescalePolicyError(f"{path}", [f"can't be written: {error}"]) from error
    finally:
        pyplot.close(figure)
