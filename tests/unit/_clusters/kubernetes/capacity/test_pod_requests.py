"""The capacity that the scheduler reserves for pods, and quantities of CPU and memory."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import (
    amount,
    is_terminal,
    largest,
    millicores,
    pod_request,
    resources,
    whole,
)
from airflow_adaptive._core.ports import Resources


def container(name: str = "main", cpu: str = "1", memory: str = "10", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def pod(*containers: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}, "status": status or {}}


def sidecar(cpu: str, memory: str) -> dict[str, Any]:
    return container(f"sidecar-{cpu}", cpu, memory, restartPolicy="Always")


def test_containers_add_up():
    assert pod_request(pod(container(), container("two", "500m", "5"), {"name": "none"})) == Resources(1500, 15)


def test_the_largest_init_container_counts_if_it_exceeds_the_containers():
    init = [container("a", "3", "1"), container("b", "1", "50")]
    assert pod_request(pod(container(), initContainers=init)) == Resources(3000, 50)
    assert pod_request(pod(container(cpu="4", memory="60"), initContainers=init)) == Resources(4000, 60)


def test_a_sidecar_counts_with_the_containers():
    assert pod_request(pod(container(), initContainers=[sidecar("2", "5")])) == Resources(3000, 15)


def test_a_sidecar_counts_with_the_init_containers_that_start_after_it():
    after = [sidecar("2", "5"), container("init", "3", "20")]
    before = [container("init", "3", "20"), sidecar("2", "5")]
    assert pod_request(pod(container(), initContainers=after)) == Resources(5000, 25)
    assert pod_request(pod(container(), initContainers=before)) == Resources(3000, 20)


def test_requests_of_the_pod_replace_the_sum_and_the_overhead_is_added():
    overhead = {"cpu": "250m", "memory": "7"}
    assert pod_request(pod(container(), overhead=overhead)) == Resources(1250, 17)
    both = {"requests": {"cpu": "5", "memory": "100"}}
    assert pod_request(pod(container(), resources=both, overhead=overhead)) == Resources(5250, 107)
    assert pod_request(pod(container(), resources={"requests": {"cpu": "5"}})) == Resources(5000, 10)
    assert pod_request(pod(container(), resources={"requests": {"memory": "5"}})) == Resources(1000, 5)
    assert pod_request(pod(container(), resources={"limits": {"memory": "5"}})) == Resources(1000, 10)


@pytest.mark.parametrize("field", ["resources", "allocatedResources"])
def test_a_container_keeps_its_old_request_until_the_kubelet_has_resized_it(field: str):
    actual: Any = {"cpu": "2", "memory": "3"}
    status = {"name": "main", field: {"requests": actual} if field == "resources" else actual}
    assert pod_request(pod(container(), status={"containerStatuses": [status]})) == Resources(2000, 10)
    init = [container("main", "1", "10", restartPolicy="Always")]
    resized = pod(container("other", "1", "1"), initContainers=init, status={"initContainerStatuses": [status]})
    assert pod_request(resized) == Resources(3000, 11)


@pytest.mark.parametrize(
    ("phase", "expected"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_of_a_final_phase_is_terminal(phase: str, *, expected: bool):
    assert is_terminal({"status": {"phase": phase}}) is expected
    assert not is_terminal({})


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("500m", 500), ("2", 2000), (2, 2000), ("0.1", 100), ("1n", 1), ("100u", 1), ("1k", 1_000_000), ("1e1", 10_000)],
)
def test_cpu_is_rounded_up_to_millicores(quantity: str | int, expected: int):
    assert millicores(quantity) == expected


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("128974848", 128_974_848), ("129M", 129_000_000), ("123Mi", 123 << 20), ("1500m", 2), ("1Ei", 1 << 60)],
)
def test_memory_is_rounded_up_to_bytes(quantity: str, expected: int):
    assert whole(quantity) == expected


@pytest.mark.parametrize("quantity", ["", "x", "1Xi", "1.2.3"])
def test_a_text_that_is_no_quantity_is_an_error(quantity: str):
    with pytest.raises(ValueError, match="Invalid|unknown"):
        amount(quantity)


def test_a_missing_resource_counts_as_nothing():
    assert resources({}) == Resources()
    assert resources({"memory": "1Ki", "nvidia.com/gpu": "1"}) == Resources(0, 1024)


def test_the_largest_resources_are_chosen_one_by_one():
    assert largest(Resources(1, 5), Resources(3, 2), Resources(2, 4)) == Resources(3, 5)
