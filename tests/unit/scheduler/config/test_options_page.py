"""docs/options.md contains the tables of options, strategies and failures; write the page with `python tests/unit/scheduler/config/test_options_page.py`."""

from __future__ import annotations

from dataclasses import fields

from airflow_adaptive.scheduler.config.options import OPTIONS, Option
from airflow_adaptive.scheduler.config.restart_strategies import STRATEGIES, as_text
from airflow_adaptive.scheduler.policies.failure_handling import CODE_ERRORS, NON_RECOVERABLE
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "options.md"

HEAD = """# Options

Each is a parameter of `AdaptiveSparkOperator`, and an option of the section `[adaptive]` in airflow.cfg for all jobs of a
deployment; the task's own wins. Durations are a `timedelta`, seconds, or text such as `30 s`, `5 min`, `50 ms`. The names that
Flink gives them are understood, too, the newer before the older.

| Option | Default | Meaning | In Flink |
|---|---|---|---|
"""


STRATEGIES_HEAD = """
## Restart strategies

`restart_strategy` is a name, or a mapping of `type` and parameters: `{"type": "fixed-delay", "attempts": 3, "delay": "10 s"}`,
in airflow.cfg as JSON. Names are read in any case; `off` and `disable` are `none`. Flink's own keys,
`restart-strategy.fixed-delay.attempts` say, are understood beside the key that names the strategy. A rescale is no failure; the
loss of executors is one if a query fails by it.

| Strategy | Parameter | Default | Meaning |
|---|---|---|---|
"""


FAILURES_HEAD = """
## Failures that no restart mends

A failed job restarts as its strategy says, unless the failure itself says that no restart can help: then the job fails at once,
and its task without a retry. The names of the failure and of all its causes are compared with these patterns:

"""

FAILURES_TAIL = """
Before the job has run for the first time the same goes for what looks like a mistake in the author's function:
{code_errors}.

`non_recoverable_failures` adds patterns. `recoverable_failures` beats all others: with `PATH_NOT_FOUND, TABLE_OR_VIEW_NOT_FOUND`
a job waits for input that does not exist yet. A pattern fits a class with or without its module, and a condition with or without
its second part; `*` stands for anything.
"""


def row(option: Option) -> str:
    default = "unset" if option.default is None else option.default
    flink = "<br>".join(f"`{name}`" for name in option.flink) or "-"
    return f"| `{option.name}` | {default} | {option.doc} | {flink} |\n"


def strategy_rows(name: str) -> str:
    parameters = fields(STRATEGIES[name])
    rows = [f"`{p.name}` | {as_text(p.default)} | {p.metadata['doc']}" for p in parameters]
    return "".join(f"| {name} | {row} |\n" for row in rows or ["- | - | The job fails with its first failure."])


def page() -> str:
    options = "".join(row(option) for option in OPTIONS.values())
    strategies = STRATEGIES_HEAD + "".join(map(strategy_rows, STRATEGIES))
    failures = FAILURES_HEAD + "".join(f"- `{pattern}`\n" for pattern in NON_RECOVERABLE)
    code_errors = ", ".join(f"`{name}`" for name in CODE_ERRORS)
    return HEAD + options + strategies + failures + FAILURES_TAIL.format(code_errors=code_errors)


def test_page_is_the_table() -> None:
    assert PAGE.read_text() == page()


if __name__ == "__main__":
    PAGE.write_text(page())
