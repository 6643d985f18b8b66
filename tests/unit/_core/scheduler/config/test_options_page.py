"""docs/reference/options.md contains the tables of options, strategies and failures; write the page with `python -m tests.unit._core.scheduler.config.test_options_page`."""

from __future__ import annotations

from dataclasses import fields

from airflow_adaptive._core.scheduler.config.options import OPTIONS, Option
from airflow_adaptive._core.scheduler.config.parsing import STRATEGIES, as_text
from airflow_adaptive._core.scheduler.policies.failure_handling import CODE_ERRORS, NON_RECOVERABLE
from airflow_adaptive._core.scheduler.policies.known_causes import BY_TEXT
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "reference" / "options.md"

HEAD = """# Options

Set an option as a parameter of `AdaptiveSparkOperator`, or in the section `[adaptive]` of `airflow.cfg` for all jobs of a deployment. The parameter of the
task takes precedence. A duration is a `timedelta`, a number of seconds, or text such as `30 s`, `5 min` or `50 ms`.

Flink's names are also accepted. The name of the first column takes precedence over Flink's names, and a new name of Flink over an old name.

| Option | Default | Meaning | In Flink |
|---|---|---|---|
"""


STRATEGIES_HEAD = """
## Restart strategies

`restart_strategy` is a name, or a mapping of `type` and parameters, for example `{"type": "fixed-delay", "attempts": 3, "delay": "10 s"}`. In `airflow.cfg`,
write the mapping as JSON. Names are not case-sensitive, and `off` and `disable` mean `none`. Flink's keys, for example
`restart-strategy.fixed-delay.attempts`, are accepted together with the key that selects the strategy.

A rescale does not count as a failure. The loss of executors counts as a failure only if a query fails because of the loss.

A failed query restarts in the running driver. If the driver has committed batches and then fails twice in the same way, a new driver replaces it, because
the driver may contain the cause, such as cached metadata of a table that was created again. Failures that an outage may cause do not count.

| Strategy | Parameter | Default | Meaning |
|---|---|---|---|
"""


FAILURES_HEAD = """
## Non-recoverable failures

The restart strategy decides whether a failed job restarts. A non-recoverable failure fails the job and its task immediately, without a retry. A failure is
non-recoverable if the exception class or the error condition of the failure or of one of its causes matches one of these patterns:

"""

FAILURES_TAIL = """
Until the job has run once, the following exceptions are also non-recoverable, because they usually are errors in the job script:
{code_errors}.

Spark reports some causes under a general exception. The text tells them: {texts}.

The option `non_recoverable_failures` adds patterns. The option `recoverable_failures` takes precedence over all other patterns. For example, set
`recoverable_failures` to `PATH_NOT_FOUND, TABLE_OR_VIEW_NOT_FOUND` for a job that waits for input that does not exist yet. A pattern matches a class name with
or without its module, and an error condition with or without its subclass. `*` matches any text.

## Failures before the first batch

A job of which no batch was ever committed with its current deployment (code, arguments and properties) fails after
`max_failures_before_first_batch` equal failures. Two failures are equal if the error class and the message are equal; numbers, paths, ids and times in the
message do not count. A failure that an outage may cause, such as a lost driver, a refused connection or a timeout, counts only until the job has
completed a trigger with this or an earlier deployment; a query that waits for data has completed one. Submissions that the cluster refuses, such as a master that
restarts, count only if they last for a minute. All failures of a batch (`df.write`) count until the batch has finished once. To let a job restart without this limit, set `recoverable_failures` to `*`.
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
    texts = ", ".join(f"`{cause.text}`" for cause in BY_TEXT)
    return HEAD + options + strategies + failures + FAILURES_TAIL.format(code_errors=code_errors, texts=texts)


def test_page_is_the_table() -> None:
    assert PAGE.read_text() == page()


if __name__ == "__main__":
    PAGE.write_text(page())
