"""Resource requirements: validation, update, and the resulting bounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import RequirementsChanged
from airflow_adaptive._core.scheduler.job_graph import JobGraph, default_max_parallelism
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, accept, violations
from tests.lab.conformance.result import (
    Comparison,
    NotApplicableError,
    Vector,
    compare,
    compare_error,
    expect_only,
    may_fail,
)
from tests.lab.conformance.subjects.job_graphs import graph, requirements
from tests.lab.scenario import START, Scenario

_NOT_CONFIGURED = -1


def requirements_validation(vector: Vector) -> Iterator[Comparison]:
    """`JobResourceRequirements#validate`."""
    if "situation" in vector:
        raise NotApplicableError("the vector describes the REST endpoint, which is not part of the scheduler")
    expect_only(vector, "expected_errors", "expected_http_status")
    requested = requirements(vector["requirements"], "lowerBound", "upperBound")
    actual = violations(requested, vector["max_parallelism"])
    yield from compare("errors", sorted(vector["expected_errors"]), sorted(actual))


def requirements_query(vector: Vector) -> Iterator[Comparison]:
    """`AdaptiveScheduler#requestJobResourceRequirements` after updates."""
    expect_only(vector, "expected")
    mode, parallelism = vector.get("scheduler_mode") or "", vector["parallelism"]
    maximum = vector.get("max_parallelism") or default_max_parallelism(parallelism)
    job = JobGraph.single("vector", ParallelismRange(1, parallelism), max_parallelism=maximum)
    scenario = Scenario(graph=job, reactive=mode.lower() == "reactive")
    for lower, upper in vector.get("updates") or []:
        scenario.when_requirements(lower, upper)
    expected = vector["expected"]
    if "error" in expected:
        yield from compare_error(expected["error"], "; ".join(scenario.reasons))
        return
    (bounds,) = scenario.state.requirements.values()
    yield from compare("bounds", expected, {"lowerBound": bounds.lower, "upperBound": bounds.upper})


@may_fail
def apply_requirements(vector: Vector) -> Iterator[Comparison]:
    """`DefaultVertexParallelismStore#applyJobResourceRequirements`."""
    expect_only(vector, "expected")
    job = graph([{**v, "name": name, "max_parallelism": v["max"]} for name, v in vector["current"].items()])
    before = machine.create(job, Options(slot_request_max_interval=timedelta(0)))
    requested = requirements(vector["requirements"], "lower", "upper")
    accepted = accept(requested, job.requirements, job.max_parallelism)
    after = machine.step(before, RequirementsChanged(at=START, requirements=accepted)).state
    yield from compare("changed", vector["expected"].get("changed"), after.requirements != before.requirements)
    if "result" in vector["expected"]:
        result = {
            name: {"lower": bounds.lower, "upper": bounds.upper, "max": after.job.max_parallelism[name]}
            for name, bounds in after.requirements.items()
        }
        yield from compare("result", vector["expected"]["result"], result)


@may_fail
def vertex_parallelism_store(vector: Vector) -> Iterator[Comparison]:
    """`SchedulerBase#computeVertexParallelismStore`: default bounds and maximum parallelism, also in reactive mode."""
    expect_only(vector, "expected")
    parallelism, declared, expected = vector["parallelism"], vector["max_parallelism"], vector["expected"]
    maximum = default_max_parallelism(parallelism) if declared == _NOT_CONFIGURED else declared
    job = JobGraph.single("vector", ParallelismRange(1, parallelism), max_parallelism=maximum)
    options = Options.of({"scheduler-mode": "reactive"} if vector.get("adjust") else {})
    state = machine.create(job, options)
    (bounds,), (max_parallelism,) = state.requirements.values(), state.job.max_parallelism.values()
    actual = {
        "parallelism": bounds.upper,
        "min_parallelism": bounds.lower,
        "max_parallelism": max_parallelism,
        "can_rescale_max": False,
    }
    for name, value in expected.items():
        yield from compare(name, value, actual.get(name))
