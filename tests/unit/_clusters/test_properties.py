"""The Spark properties of a driver on every cluster manager, and on a standalone cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._clusters.properties import common_properties, standalone_properties
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError

SUBMISSION = DriverSubmission(
    name="departures",
    epoch=1,
    nonce="n",
    script="s.py",
    executors=2,
    max_executors=5,
    executor_cores=3,
    executor_memory_mb=700,
)


@pytest.mark.parametrize("properties", [common_properties, standalone_properties])
def test_executors_have_the_declared_size_and_queries_share_them(properties):
    conf = properties(SUBMISSION)
    assert (conf["spark.executor.cores"], conf["spark.executor.memory"]) == ("3", "700m")
    assert conf["spark.scheduler.mode"] == "FAIR"


@pytest.mark.parametrize("properties", [common_properties, standalone_properties])
@pytest.mark.parametrize("executors", [0, 6])
def test_number_of_executors_out_of_bounds_is_refused(properties, executors):
    with pytest.raises(SubmissionRefusedError, match=r"'departures' .* in 1\.\.5"):
        properties(replace(SUBMISSION, executors=executors))


def test_standalone_session_starts_with_its_executors_and_may_grow():
    conf = standalone_properties(SUBMISSION)
    assert conf["spark.cores.max"] == "15"
    allocation = "spark.dynamicAllocation."
    assert conf[f"{allocation}enabled"] == "true"
    assert [conf[f"{allocation}{bound}Executors"] for bound in ("initial", "min", "max")] == ["2", "2", "5"]
