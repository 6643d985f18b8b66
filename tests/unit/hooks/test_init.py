"""Imports of the Airflow classes in an environment without the extra `kubernetes`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.repository import ROOT

PROGRAM = """
import sys
sys.modules["kubernetes"] = sys.modules["kubernetes_asyncio"] = None  # a name whose module is None cannot be imported
import airflow_adaptive.operators.adaptive_spark, airflow_adaptive.sensors.spark_resources, airflow_adaptive.triggers.adaptive_job
import airflow_adaptive._airflow.process.job_loop, airflow_adaptive._airflow.declaration.placement, airflow_adaptive.hooks.kubernetes
print("imported")
"""


@pytest.mark.long
def test_airflow_classes_need_no_kubernetes_library() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1:] == ["imported"], result.stderr
