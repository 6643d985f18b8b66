"""Slots: required slots, the parallelism on the available slots, and desired resources."""

from __future__ import annotations

from collections.abc import Iterator
from operator import contains

from airflow_adaptive._core.scheduler import resource_checks
from airflow_adaptive._core.scheduler.allocator import determine_parallelism, required_slots
from airflow_adaptive._core.scheduler.policies.transition_manager import ResourceLevel
from tests.lab.conformance.result import Comparison, Vector, compare, expect_only
from tests.lab.conformance.subjects.job_graphs import graph
from tests.lab.scenario import Scenario


def slot_allocator(vector: Vector) -> Iterator[Comparison]:
    """`SlotSharingSlotAllocator#determineParallelism`."""
    expect_only(vector, "expected_parallelism", "expected_parallelism_one_of")
    job = graph(vector["vertices"])
    actual = determine_parallelism(job, job.requirements, vector["slots"])
    one_of = vector.get("expected_parallelism_one_of", [vector.get("expected_parallelism")])
    yield Comparison(what="parallelism", expected=one_of, actual=actual, meets=contains)


def slots_required(vector: Vector) -> Iterator[Comparison]:
    """`SlotSharingSlotAllocator#calculateRequiredSlots`."""
    expect_only(vector, "expected_required_slots")
    job = graph(vector["vertices"])
    yield from compare("required slots", vector["expected_required_slots"], required_slots(job, job.requirements))


def has_desired_resources(vector: Vector) -> Iterator[Comparison]:
    """`AdaptiveScheduler#hasDesiredResources`."""
    expect_only(vector, "expected")
    state = Scenario(lower=1, upper=vector["required_slots"]).when_slots(free=vector["available_slots"]).state
    desired = resource_checks.waiting_resources(state) is ResourceLevel.DESIRED
    yield from compare("desired resources", vector["expected"], desired)
