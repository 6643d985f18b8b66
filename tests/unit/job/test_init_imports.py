"""The packages of the driver that other packages import work in a Python that has neither pyspark nor py4j."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import airflow_adaptive
from airflow_adaptive._core import protocol
from airflow_adaptive.job import control

ROOT: Final = Path(airflow_adaptive.__file__).parents[1]

MODULES: Final = tuple(
    module.name
    for package in (protocol, control)
    for module in walk_packages(package.__path__, prefix=f"{package.__name__}.")
)

WITHOUT_SPARK: Final = """
import sys
from importlib import import_module

sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(("pyspark", "py4j")))  # a name whose module is None cannot be imported
for name in sys.argv[2:]:
    import_module(name)
"""


def imported_without_spark(*modules: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", WITHOUT_SPARK, str(ROOT), *modules]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_protocol_and_control_loop_import_without_spark():
    assert {name.rpartition(".")[2] for name in MODULES} >= {"documents", "failures", "conf", "driver_loop", "fence"}
    done = imported_without_spark("airflow_adaptive.job", *MODULES)
    assert done.returncode == 0, done.stderr


def test_module_that_needs_spark_fails_without_it():
    done = imported_without_spark("airflow_adaptive.job.entry.adaptive_job")
    assert "pyspark" in done.stderr.splitlines()[-1]
