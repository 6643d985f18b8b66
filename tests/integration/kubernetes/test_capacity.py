"""The calculated capacity is what the real scheduler and the real API server grant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import httpx
import pytest

from airflow_adaptive._clusters.kubernetes.capacity.capacity import Capacity, NamespaceObjects, capacity
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.reader import ApiLists, ClusterReader
from airflow_adaptive._core.ports import Request
from airflow_adaptive._engine.clock import SystemClock
from tests.support.kubernetes.api import Json, KubernetesApi
from tests.support.kubernetes.capacity.executor_pods import bound, create_pods, fitting, namespace_without_kubelets
from tests.support.kubernetes.capacity.plain_nodes import PlainNodes, kept_ready
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, cordon

MIB = 1024 * 1024

pytestmark = pytest.mark.asyncio


class SynchronousLists(ApiLists):
    """Lists with the API client of the tests."""

    def __init__(self, api: KubernetesApi):
        self.synchronous = api

    async def page(self, path: str, parameters: Mapping[str, str]) -> Json:
        query = httpx.QueryParams(dict(parameters))
        return self.synchronous.get(f"{path}?{query}")


@pytest.fixture
def api(kubernetes_control_plane: KubernetesCluster) -> Iterator[KubernetesApi]:
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api(control_plane.admin) as admin:
        yield admin


@pytest.fixture
def team(api: KubernetesApi) -> Iterator[Namespace]:
    with namespace_without_kubelets(api) as created:
        yield created


@pytest.fixture
def nodes(api: KubernetesApi, team: Namespace) -> Iterator[PlainNodes]:
    created = PlainNodes(api, team.name.removeprefix("airflow-adaptive-test-"))
    created.group = f"n{created.group}"
    with kept_ready(created):
        yield created


def executor(nodes: PlainNodes, template: Json | None = None, zone: str | None = None) -> Request:
    """Return an executor of 1 core and 1 GiB that runs on the nodes of the test only."""
    spec = {**(template or {}), "nodeSelector": {"group": nodes.group}}
    conf = {"spark.executor.memoryOverhead": "512m"}
    return planned_executor(
        conf | ({"spark.kubernetes.node.selector.zone": zone} if zone else {}), 1, 512, {"spec": spec}
    )


async def known_capacity(team: Namespace) -> Capacity:
    reader = ClusterReader(SynchronousLists(team.api), SystemClock())
    objects = NamespaceObjects(
        namespace=team.name,
        own_pods=[],
        quotas=team.api.list(team.path("resourcequotas")),
        limit_ranges=team.api.list(team.path("limitranges")),
    )
    return capacity(objects, await reader.read())


async def check_schedules_exactly(team: Namespace, planned: Request, expected: int) -> None:
    """Check that the calculated number of executors is the expected one, and that the scheduler binds exactly this number."""
    assert fitting((await known_capacity(team)).workers, planned) == expected
    create_pods(team, planned, expected + 2)
    assert bound(team) == expected


async def test_the_scheduler_binds_exactly_the_calculated_number(team: Namespace, nodes: PlainNodes):
    nodes.create("4", "2500Mi")
    nodes.create("2500m", "64Gi")
    nodes.create("64", "64Gi", pods="3")
    await check_schedules_exactly(team, executor(nodes), 2 + 2 + 3)


async def test_pods_of_other_namespaces_with_sidecars_and_init_containers_take_their_room(
    team: Namespace, nodes: PlainNodes
):
    nodes.create("10", "64Gi")
    sidecar = {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    init = {"name": "init", "resources": {"requests": {"cpu": "2200m"}}}
    with namespace_without_kubelets(team.api) as other:
        create_pods(other, executor(nodes, {"containers": [{"name": "spark"}], "initContainers": [sidecar, init]}), 2)
        assert bound(other) == 2
        await check_schedules_exactly(team, executor(nodes), 4)


async def test_sidecars_of_the_template_count(team: Namespace, nodes: PlainNodes):
    nodes.create("4", "64Gi")
    containers = [{"name": "spark"}, {"name": "logs", "resources": {"requests": {"cpu": "300m", "memory": "1Mi"}}}]
    await check_schedules_exactly(team, executor(nodes, {"containers": containers}), 3)


async def test_taints_cordons_selectors_and_affinity_decide_where_executors_fit(team: Namespace, nodes: PlainNodes):
    taint = {"key": "team", "value": "batch", "effect": "NoSchedule"}
    nodes.create("1", "64Gi", zone="a")
    nodes.create("2", "64Gi", zone="b", taints=[taint])
    nodes.create("4", "64Gi", zone="c", taints=[{"key": "soft", "effect": "PreferNoSchedule"}])
    nodes.create("8", "64Gi", zone="d")
    cordoned = nodes.create("16", "64Gi", zone="a")
    cordon(team.api, cordoned)
    team.api.wait_for(f"/api/v1/nodes/{cordoned}", lambda node: node["spec"].get("unschedulable"), "cordon")
    zones = {"key": "zone", "operator": "NotIn", "values": ["d"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    template = {
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
    found = await known_capacity(team)
    assert fitting(found.workers, executor(nodes)) == 1 + 4 + 8
    assert fitting(found.workers, executor(nodes, zone="d")) == 8
    await check_schedules_exactly(team, executor(nodes, template), 1 + 2 + 4)


async def test_a_node_that_is_not_ready_has_no_room(team: Namespace, nodes: PlainNodes):
    nodes.create("2", "64Gi")
    lost = nodes.create("4", "64Gi")
    assert fitting((await known_capacity(team)).workers, executor(nodes)) == 6
    nodes.names.remove(lost)
    team.api.wait_for(f"/api/v1/nodes/{lost}", lambda node: "taints" in node["spec"], "taint of the lost node")
    await check_schedules_exactly(team, executor(nodes), 2)
    team.api.delete(f"/api/v1/nodes/{lost}")
