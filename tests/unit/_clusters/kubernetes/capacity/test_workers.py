"""A worker has what the pods leave of its node, or what the limits of its namespace bound."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import MUCH
from airflow_adaptive._clusters.kubernetes.capacity.workers import Usage, node_workers, on_demand_worker, usage_by_node
from airflow_adaptive._core.ports import Limit, LimitKind, Request, Resources

READY = {"type": "Ready", "status": "True"}


def node(name: str, cpu: str = "4", memory: str = "100", pods: str = "10", **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable, "conditions": [READY]}}


def pod(node_name: str | None, cpu: int = 1, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu), "memory": "10"}}}
    return {"spec": {"containers": [container], "nodeName": node_name}, "status": {"phase": phase}}


def test_a_pod_holds_its_request_from_its_binding_to_the_end_of_its_containers():
    pods = [
        pod("a"),
        pod("a", 2, "Pending"),
        pod("b"),
        pod("b", phase="Succeeded"),
        pod("b", phase="Failed"),
        pod(None),
    ]
    assert usage_by_node(pods) == {"a": Usage(Resources(3000, 20), 2), "b": Usage(Resources(1000, 10), 1)}


def test_a_worker_has_what_the_pods_leave_of_its_node():
    first, second = node_workers([node("b"), node("a")], {"a": Usage(Resources(3000, 20), 2)})
    assert (first.worker_id, first.address, second.worker_id) == ("a", "a", "b")
    assert (first.total, first.free, first.count) == (Resources(4000, 100), Resources(1000, 80), 8)
    assert (second.free, second.count) == (second.total, 10)


def test_an_overcommitted_node_has_no_room():
    [worker] = node_workers([node("a")], {"a": Usage(Resources(5000, 200), 11)})
    assert (worker.free, worker.count) == (Resources(), 0)


def test_a_node_that_has_not_reported_its_size_has_no_room():
    [worker] = node_workers([{"metadata": {"name": "a"}}], {})
    assert (worker.total, worker.free, worker.count) == (Resources(), Resources(), 0)


def test_a_worker_accepts_what_its_node_admits_while_it_is_ready():
    lost = node("c") | {"status": {"conditions": [READY | {"status": "Unknown"}]}}
    workers = node_workers([node("a"), node("b", unschedulable=True), lost], {})
    assert [worker.accepts("") for worker in workers] == [True, False, False]
    anywhere = '{"tolerations": [{"operator": "Exists"}]}'
    assert [worker.accepts(anywhere) for worker in workers] == [True, True, False]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9))))
def test_free_and_held_resources_add_up_to_the_total(pods):
    usages = usage_by_node(pod(name, cpu) for name, cpu in pods)
    for worker in node_workers([node("a", cpu="1000", memory="10000"), node("b", cpu="1000", memory="10000")], usages):
        assert worker.free + usages.get(worker.worker_id, Usage()).requested == worker.total


def test_a_namespace_takes_what_its_limits_bound():
    bounded = Limit(kind=LimitKind.CAP, cpu_millicores=1000)
    worker = on_demand_worker("team", [bounded], [pod("a"), pod(None)])
    assert (worker.worker_id, worker.address, worker.free, worker.count) == (
        "team",
        "team",
        Resources(MUCH, MUCH),
        None,
    )
    assert worker.total == Resources(MUCH, MUCH) + Resources(1000, 10)
    assert worker.accepts("{}")


def test_a_namespace_does_not_take_what_no_limit_bounds():
    def of_others(request: Request) -> Resources | None:
        return Resources() if request.placement == "other" else None

    scoped = Limit(kind=LimitKind.QUOTA, name="quota", cpu_millicores=1, charge=of_others)
    worker = on_demand_worker("team", [scoped], [])
    assert (worker.accepts("own"), worker.accepts("other")) == (False, True)
