"""What a worker's web UI shows of a driver's output (`/logPage/` for people, `/log/` for programs).

Pure: no I/O. Source in Spark: `org.apache.spark.deploy.worker.ui.LogPage`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from airflow_adaptive.ports import LogPages
from airflow_adaptive.spark.errors import ProtocolError

STDOUT = "stdout"
STDERR = "stderr"

MAX_BYTES = 16 * 1024
"""Of one output; the end of it."""

HEADER = re.compile(r"==== Bytes (\d+)-\d+ of \d+ of .* ====\n")

NO_LOG = "Error: invalid log directory"
"""The worker has removed the driver's directory (`spark.worker.cleanup.enabled`), or never had it."""


def log_pages(address: str, submission_id: str) -> LogPages:
    """Pages of a driver's outputs on the web UI of its worker."""
    return LogPages(
        stdout=f"{address}/logPage/?{_query(submission_id, STDOUT)}",
        stderr=f"{address}/logPage/?{_query(submission_id, STDERR)}",
    )


def log_url(page: str) -> str:
    """Where programs read the end of the output that people read at `page`."""
    address, _, query = page.rpartition("/logPage/?")
    return f"{address}/log/?{query}&byteLength={MAX_BYTES}"


def read_log(text: str) -> str:
    """The output itself, from its first complete line.

    Raises:
        ProtocolError: it is no such answer.
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
