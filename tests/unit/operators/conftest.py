"""Fixtures of the tests in this directory."""

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from tests.support.airflow.fake_supervisor import FakeComms

SCRIPT = "from airflow_adaptive.job import AdaptiveJob\n"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "departures.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture
def make(tmp_path, script):
    def make(**changes):
        arguments = {
            "task_id": "departures",
            "job": "departures",
            "application": script,
            "job_directory": f"file://{tmp_path}/jobs",
            "parallelism": (1, 4),
        }
        return AdaptiveSparkOperator(**(arguments | changes))

    return make


@pytest.fixture
def task_log() -> Iterator[Callable[[], str]]:
    """Return what the tasks have logged so far. The logger of a task may keep the standard output of an earlier moment, which `capsys` does not read."""
    with capture_logs() as entries:
        yield lambda: "\n".join(entry["event"] for entry in entries)


@pytest.fixture
def airflow(monkeypatch) -> FakeComms:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://127.0.0.1:1?ui-port=1&rest-port=1")
    return FakeComms.install(monkeypatch)
