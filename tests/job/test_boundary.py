from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.job import boundary_trials

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("boundary")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, boundary_trials.__file__, str(directory)],
        env={**os.environ, "PYTHONPATH": root, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads((directory / boundary_trials.RESULT).read_text())
    return found


def test_no_batch_is_cut_whenever_a_query_is_ended(trials):
    assert [trial for trial in trials if trial["began"] != trial["committed"] or not trial["exact"]] == []
    assert max(trial["committed"] for trial in trials if trial["kind"] == "busy") > 3


def test_an_ended_query_is_gone_without_failure(trials):
    assert [trial for trial in trials if trial["active"] or trial["registered"] or trial["failed"]] == []


def test_a_query_that_waits_for_its_trigger_ends_at_once(trials):
    resumed = [trial for trial in trials if trial["kind"] == "sleeping"][1:]
    assert all(trial["took_s"] < 10.0 for trial in resumed)
