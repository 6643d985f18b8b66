"""The output of a driver on a worker's web UI (`/logPage/` for users, `/log/` for programs).

The module performs no I/O. Source in Spark: `org.apache.spark.deploy.worker.ui.LogPage`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from airflow_adaptive._clusters.standalone.errors import ProtocolError
from airflow_adaptive._core.ports import LogPages

STDOUT = "stdout"
STDERR = "stderr"

MAX_BYTES = 16 * 1024
"""Number of bytes to read from the end of one output."""

HEADER = re.compile(r"==== Bytes (\d+)-\d+ of \d+ of .* ====\n")

NO_LOG = "Error: invalid log directory"
"""Response after the worker has removed the driver's directory (`spark.worker.cleanup.enabled`), or if it never had
one."""


def log_pages(address: str, submission_id: str) -> LogPages:
    """Return the pages of a driver's outputs on the web UI of its worker."""
    return LogPages(
        stdout=f"{address}/logPage/?{_query(submission_id, STDOUT)}",
        stderr=f"{address}/logPage/?{_query(submission_id, STDERR)}",
    )


def log_url(page: str) -> str:
    """Return the URL at which programs read the end of the output of a page for users."""
    address, _, query = page.rpartition("/logPage/?")
    return f"{address}/log/?{query}&byteLength={MAX_BYTES}"


def read_log(text: str) -> str:
    """Return the output from its first complete line.

    Raises:
        ProtocolError: the text is not the log of a Spark worker.
    """
    header = HEADER.match(text)
    if header is None:
        raise ProtocolError("not the log of a Spark worker")
    log = text[header.end() :]
    if log.startswith(NO_LOG):
        return ""
    return log if header[1] == "0" else log.partition("\n")[2]


def _query(submission_id: str, output: str) -> str:
    return f"driverId={quote(submission_id, safe='')}&logType={output}"
