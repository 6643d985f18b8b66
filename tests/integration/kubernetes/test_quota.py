"""The calculated room of quotas and limit ranges is what the real API server grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap, limits_of
from airflow_adaptive._core.ports import Request
from tests.support.kubernetes.api import Json
from tests.support.kubernetes.capacity.executor_pods import allowed, create_pods, namespace_without_kubelets
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace

MANY = 12


@pytest.fixture
def team(kubernetes_control_plane: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api(control_plane.admin) as api, namespace_without_kubelets(api) as created:
        yield created


def executor(template: Json | None = None, conf: Mapping[str, str] | None = None) -> Request:
    """Return an executor of 1 core and 1 GiB."""
    return planned_executor({"spark.executor.memoryOverhead": "512m", **(conf or {})}, 1, 512, {"spec": template or {}})


def set_quota(team: Namespace, name: str, hard: Mapping[str, str], **spec: object) -> None:
    team.create("ResourceQuota", name, {"spec": {"hard": hard, **spec}})

    def is_known(quota: Json) -> bool:
        return quota.get("status", {}).get("used", {}).keys() == hard.keys()

    team.api.wait_for(team.path("resourcequotas", name), is_known, "usage of the quota")


def set_limit_range(team: Namespace, **item: object) -> None:
    team.create("LimitRange", "range", {"spec": {"limits": [{"type": "Container", **item}]}})


def calculated(team: Namespace, planned: Request) -> int:
    quotas, ranges = team.api.list(team.path("resourcequotas")), team.api.list(team.path("limitranges"))
    return allowed(limits_of(quotas, ranges, Cap(), team.pods()), planned)


def check_creates_exactly(team: Namespace, planned: Request, expected: int, prefix: str = "executor") -> None:
    """Check that the calculated number is the expected one, and that the API server accepts exactly this number of pods."""
    assert min(calculated(team, planned), MANY) == expected
    assert create_pods(team, planned, MANY, prefix) == expected


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        ({"pods": "3"}, 3),
        ({"count/pods": "2", "pods": "3"}, 2),
        ({"requests.cpu": "2500m"}, 2),
        ({"cpu": "4"}, 4),
        ({"requests.memory": "5200Mi"}, 5),
        ({"memory": "3Gi", "requests.cpu": "4"}, 3),
        ({"limits.memory": "2Gi"}, 2),
        ({"limits.cpu": "4"}, 0),
        ({"configmaps": "10"}, MANY),
    ],
)
def test_a_quota_allows_exactly_the_calculated_number(team: Namespace, hard: dict[str, str], expected: int):
    set_quota(team, "quota", hard)
    check_creates_exactly(team, executor(), expected)


def test_the_lowest_of_several_quotas_counts_with_the_pods_that_exist(team: Namespace):
    set_quota(team, "memory", {"requests.memory": "8Gi"})
    set_quota(team, "cpu", {"requests.cpu": "6"})
    assert create_pods(team, executor(), 2, "before") == 2
    team.api.wait_for(
        team.path("resourcequotas", "cpu"), lambda quota: quota["status"]["used"]["requests.cpu"] == "2", "usage"
    )
    check_creates_exactly(team, executor(), 4)


def test_a_quota_of_cpu_limits_counts_limits_of_properties_and_of_limit_ranges(team: Namespace):
    set_quota(team, "quota", {"limits.cpu": "9"})
    check_creates_exactly(team, executor(conf={"spark.kubernetes.executor.limit.cores": "2"}), 4, "explicit")
    team.api.delete(team.path("resourcequotas", "quota"))
    set_quota(team, "quota", {"limits.cpu": "18"})
    set_limit_range(team, default={"cpu": "3"})
    check_creates_exactly(team, executor(), 3)


def test_a_sidecar_without_a_request_needs_a_default(team: Namespace):
    template = {"containers": [{"name": "spark"}, {"name": "logs"}]}
    set_quota(team, "quota", {"requests.cpu": "6"})
    check_creates_exactly(team, executor(template), 0, "refused")
    set_limit_range(team, defaultRequest={"cpu": "500m"})
    check_creates_exactly(team, executor(template), 4)


@pytest.mark.parametrize(
    ("scopes", "template", "expected"),
    [
        ({"scopes": ["NotTerminating"]}, {}, 2),
        ({"scopes": ["Terminating"]}, {}, MANY),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 3600}, 2),
        ({"scopes": ["BestEffort"]}, {}, MANY),
        ({"scopes": ["NotBestEffort"]}, {}, 2),
        ({"scopes": ["NotBestEffort", "Terminating"]}, {}, MANY),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, MANY),
    ],
)
def test_a_quota_counts_only_the_pods_of_its_scopes(team: Namespace, scopes: Json, template: Json, expected: int):
    set_quota(team, "quota", {"pods": "2"}, **scopes)
    check_creates_exactly(team, executor(template), expected)


@pytest.mark.parametrize(
    ("operator", "values", "priority_class", "expected"),
    [
        ("In", ["system-node-critical"], "system-node-critical", 2),
        ("In", ["system-node-critical"], None, MANY),
        ("NotIn", ["system-node-critical"], "system-node-critical", MANY),
        ("NotIn", ["system-node-critical"], None, 2),
        ("Exists", None, "system-node-critical", 2),
        ("Exists", None, None, MANY),
        ("DoesNotExist", None, None, 2),
    ],
)
def test_a_quota_of_a_priority_class(
    team: Namespace, operator: str, values: list[str] | None, priority_class: str | None, expected: int
):
    expression = {"scopeName": "PriorityClass", "operator": operator, **({"values": values} if values else {})}
    set_quota(team, "quota", {"pods": "2"}, scopeSelector={"matchExpressions": [expression]})
    template = {"priorityClassName": priority_class} if priority_class else {}
    check_creates_exactly(team, executor(template), expected)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"max": {"memory": "1Gi"}}, MANY),
        ({"max": {"memory": "1023Mi"}}, 0),
        ({"min": {"memory": "1Gi"}}, MANY),
        ({"min": {"memory": "1025Mi"}}, 0),
        ({"max": {"cpu": "1"}}, MANY),
        ({"max": {"cpu": "900m"}}, 0),
        ({"default": {"cpu": "900m"}, "defaultRequest": {"cpu": "900m"}}, 0),
        ({"default": {"cpu": "3"}, "maxLimitRequestRatio": {"cpu": "2"}}, 0),
        ({"default": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}, MANY),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, MANY),
        ({"type": "Pod", "max": {"memory": "1023Mi"}}, 0),
        ({"type": "Pod", "min": {"cpu": "1001m"}}, 0),
        ({"type": "Pod", "max": {"cpu": "4"}}, 0),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, MANY),
    ],
)
def test_a_limit_range_forbids_the_executors_that_break_it(team: Namespace, item: Json, expected: int):
    set_limit_range(team, **item)
    check_creates_exactly(team, executor(), expected)
