"""The program: what it prints and writes, and what it says to bad input."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.dates import num2date

from airflow_adaptive.autoscaling.simulation import report
from airflow_adaptive.autoscaling.simulation.__main__ import main

BASELINES = ("static maximum", "static mean", "DS2 rule", "doubling rule", "DStream rule", "dynamic allocation")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A day in which load swings, with a spike."""
    values = [300 + 40 * min(hour, 24 - hour) + (2000 if hour == 15 else 0) for hour in range(24)]
    path = tmp_path / "small.csv"
    path.write_text("\n".join(f"2030-01-01 {hour:02}:00:00,{value}" for hour, value in enumerate(values)))
    return path


@pytest.mark.long
def test_policy_is_compared_with_every_rival_and_none_is_better(small: Path, tmp_path: Path, capsys):
    assert main([str(small), "--strict", "--every", "30", "--json", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("load policy", *BASELINES))
    written = json.loads((tmp_path / "out.json").read_text())
    runs = {run["name"]: run for run in written["runs"]}
    assert set(runs) == {"load policy", *BASELINES}
    assert runs["load policy"]["rescales"] < runs["DS2 rule"]["rescales"] + 5
    assert runs["load policy"]["slot_hours"] < runs["static maximum"]["slot_hours"]
    for run in runs.values():
        assert run["rows_processed"] + run["rows_waiting"] == pytest.approx(run["rows_in"])
    assert written["trace"] == "small.csv"


def test_part_of_a_trace_and_settings_of_the_policy_are_taken(small: Path, tmp_path: Path, capsys):
    settings = tmp_path / "settings.json"
    settings.write_text('{"target": 0.5}')
    arguments = [str(small), "--alone", "--begin", "0.25", "--days", "0.25", "--option", "slot_idle_timeout=0 s"]
    assert main([*arguments, "--settings", str(settings), "--tier", "0"]) == 0
    roomy = capsys.readouterr().out
    assert main([*arguments, "--settings", '{"target": 0.8}', "--tier", "0"]) == 0
    tight = capsys.readouterr().out
    hours = [float(text.splitlines()[1].split()[2]) for text in (roomy, tight)]
    assert hours[0] > hours[1]


CALENDAR = json.dumps(
    {
        "zone": "UTC",
        "windows": [{"name": "day", "parallelism": [4, 16], "start": "08:00", "end": "20:00"}],
        "default": [2, 6],
    }
)


@pytest.mark.long
def test_calendar_and_both_together_are_tried_in_the_same_way(small: Path, tmp_path: Path, capsys):
    hours = {}
    for policy in ("calendar", "combined"):
        out = tmp_path / f"{policy}.json"
        arguments = [
            str(small),
            "--alone",
            "--every",
            "60",
            "--policy",
            policy,
            "--calendar",
            CALENDAR,
            "--json",
            str(out),
        ]
        assert main(arguments) == 0
        (run,) = json.loads(out.read_text())["runs"]
        hours[run["name"]] = run["slot_hours"]
    assert hours["scheduled policy"] == pytest.approx(12 * 16 + 12 * 6, rel=0.02)
    assert hours["combined policy"] < 0.9 * hours["scheduled policy"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (
            ["--slots", "0", "--trigger", "-1"],
            "--slots must be a number above 0, not 0.*--trigger must be a number above 0, not -1",
        ),
        (["--fixed", "10"], "--fixed must be at least 0 and less than --trigger \\(10.0\\), not 10.0"),
        (["--slot-rate", "nan"], "--slot-rate must be a number above 0, not nan"),
        (["--settings", "{"], "is neither a JSON object"),
        (["--settings", "/nowhere.json"], "nor a file with one"),
        (["--settings", '{"target": 2}'], "0 < target < high <= 1"),
        (["--policy", "combined"], "declare the windows with --calendar"),
        (["--policy", "calendar", "--calendar", '{"zone": "UTC", "window": []}'], "--calendar: .*'window'"),
        (["--policy", "calendar", "--calendar", '{"zone": "Mars", "windows": []}'], "scheduled policy: .*Mars"),
        (["--option", "cooldown"], "use name=value"),
        (["--option", "cooldown=3"], "unknown option 'cooldown'"),
        (["--days", "0.01"], "use a longer part"),
        (["--beside", "DS3 rule"], "--beside: 'DS3 rule' is none of static maximum, static mean, DS2 rule"),
        (["--alone", "--json", "/nowhere/at/all.json"], "cannot be written"),
    ],
)
def test_bad_input_is_reported_in_one_line_and_ends_with_2(small: Path, capsys, arguments: list[str], reported: str):
    assert main([str(small), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(reported, error)


def test_missing_matplotlib_is_reported_before_anything_runs(small: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([str(small), "--plot", str(tmp_path / "plot.png")]) == 2
    reported = capsys.readouterr()
    assert "matplotlib is not installed: pip install 'airflow-adaptive[plots]'" in reported.err
    assert not reported.out


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plots, before they are written."""
    simulation_metrics: list[Any] = []
    picture = report.picture

    def keep(*given: Any) -> Any:
        simulation_metrics.append(picture(*given))
        return simulation_metrics[-1]

    monkeypatch.setattr(report, "picture", keep)
    return simulation_metrics


@pytest.mark.long
def test_plot_has_slots_and_lag_of_every_rule_on_comparable_axes(small: Path, tmp_path: Path, drawn: list[Any]):
    out = tmp_path / "plot.png"
    assert main([str(small), "--every", "60", "--plot", str(out), "--json", str(tmp_path / "out.json")]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    (figure,) = drawn
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    slots, lags = figure.axes[::2], figure.axes[1::2]
    assert [axis.get_title("left").split(":")[0] for axis in slots] == ["load policy", *BASELINES]
    for axis, lag, run in zip(slots, lags, runs, strict=True):
        assert (axis.get_ylabel(), lag.get_ylabel()) == ("slots", "lag (seconds)")
        assert f"{run['slot_hours']:.0f} slot-hours" in axis.get_title("left")
        assert f"p99 lag {run['p99_lag']:.1f} s" in lag.get_title("left")
        assert [line.get_label() for line in (*axis.lines, *lag.lines)] == [report.HELD, report.LAG]
        assert [area.get_label() for area in axis.collections] == [report.NEEDED, report.SHORT]
        assert max(lag.lines[0].get_ydata()) == pytest.approx(run["max_lag"])
        assert (axis.get_ylim(), lag.get_ylim()) == (slots[0].get_ylim(), lags[0].get_ylim())
    assert [axis.get_xlabel() for axis in figure.axes[-2:]] == ["time (UTC)"] * 2
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {report.HELD, report.NEEDED, report.SHORT, report.LAG}


@pytest.mark.long
def test_plotted_slots_are_those_that_were_held_at_the_times_of_the_trace(
    small: Path, tmp_path: Path, drawn: list[Any]
):
    calendar = json.dumps(
        {"zone": "UTC", "windows": [{"name": "day", "parallelism": 9, "start": "08:00", "end": "20:00"}]}
    )
    arguments = [str(small), "--beside=static mean", "--begin", "0.25", "--policy", "calendar", "--calendar", calendar]
    assert main([*arguments, "--plot", str(tmp_path / "plot.svg")]) == 0
    (held,) = drawn[0].axes[0].lines
    assert [axis.get_title("left").split(":")[0] for axis in drawn[0].axes[2::2]] == ["static mean"]
    hours = [num2date(at).hour + num2date(at).minute / 60 for at in held.get_xdata(orig=False)]
    by_day = [count for hour, count in zip(hours, held.get_ydata(), strict=True) if 8.1 < hour < 19.9]
    assert by_day
    assert set(by_day) == {9}
    assert hours[0] == 6, "the part begins a quarter of a day after midnight"


def test_plot_that_can_t_be_written_is_reported(small: Path, tmp_path: Path, capsys):
    assert main([str(small), "--alone", "--every", "600", "--plot", str(tmp_path / "no" / "plot.png")]) == 2
    assert main([str(small), "--alone", "--every", "600", "--plot", str(tmp_path / "plot.xyz")]) == 2
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 2
    assert all("cannot be written" in line for line in reported)
