"""docs/reference/options.md contains the tables of options, strategies and failures; write them with `python -m tests.unit._core.scheduler.config.test_options_page`."""

from __future__ import annotations

from dataclasses import fields

from airflow_adaptive._core.scheduler.config.options import OPTIONS, Option
from airflow_adaptive._core.scheduler.config.parsing import STRATEGIES, as_text
from airflow_adaptive._core.scheduler.policies.failure_handling import CODE_ERRORS, NON_RECOVERABLE
from airflow_adaptive._core.scheduler.policies.known_causes import BY_TEXT
from tests.support.page_sections import replace_section, section
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "reference" / "options.md"


def row(option: Option) -> str:
    default = "unset" if option.default is None else option.default
    flink = "<br>".join(f"`{name}`" for name in option.flink) or "-"
    return f"| `{option.name}` | {default} | {option.doc} | {flink} |"


def strategy_rows(name: str) -> list[str]:
    parameters = fields(STRATEGIES[name])
    rows = [f"`{p.name}` | {as_text(p.default)} | {p.metadata['doc']}" for p in parameters]
    return [f"| {name} | {row} |" for row in rows or ["- | - | The job fails with its first failure."]]


def sections() -> dict[str, str]:
    strategies = [row for name in STRATEGIES for row in strategy_rows(name)]
    return {
        "options": "\n".join(
            ["| Option | Default | Meaning | In Flink |", "|---|---|---|---|", *map(row, OPTIONS.values())]
        ),
        "strategies": "\n".join(["| Strategy | Parameter | Default | Meaning |", "|---|---|---|---|", *strategies]),
        "patterns": "\n".join(f"- `{pattern}`" for pattern in NON_RECOVERABLE),
        "code errors": ", ".join(f"`{name}`" for name in CODE_ERRORS) + ".",
        "texts": ", ".join(f"`{cause.text}`" for cause in BY_TEXT) + ".",
    }


def test_page_has_the_tables() -> None:
    for name, text in sections().items():
        assert section(PAGE, name) == f"{text}\n"


if __name__ == "__main__":
    for name, text in sections().items():
        replace_section(PAGE, name, text)
