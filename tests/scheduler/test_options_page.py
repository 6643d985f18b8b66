"""docs/options.md shows the table of options; write it anew with `python tests/scheduler/test_options_page.py`."""

from __future__ import annotations

from pathlib import Path

from airflow_adaptive.scheduler.options import OPTIONS, Option

PAGE = Path(__file__).parents[2] / "docs" / "options.md"

HEAD = """# Options

Each is a parameter of `AdaptiveSparkOperator`, and an option of the section `[adaptive]` in airflow.cfg for all jobs of a
deployment; the task's own wins. Durations are a `timedelta`, seconds, or text such as `30 s`, `5 min`, `50 ms`. The names that
Flink gives them are understood, too, the newer before the older.

| Option | Default | Meaning | In Flink |
|---|---|---|---|
"""


def row(option: Option) -> str:
    default = "unset" if option.default is None else option.default
    flink = "<br>".join(f"`{name}`" for name in option.flink) or "-"
    return f"| `{option.name}` | {default} | {option.doc} | {flink} |\n"


def page() -> str:
    return HEAD + "".join(row(option) for option in OPTIONS.values())


def test_page_is_the_table() -> None:
    assert PAGE.read_text() == page()


if __name__ == "__main__":
    PAGE.write_text(page())
