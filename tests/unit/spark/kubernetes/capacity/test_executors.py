"""The executors of each application."""

from __future__ import annotations

from typing import Any

from airflow_adaptive.spark.kubernetes.capacity.executors import executor_pods


def pod(
    application: str, executor: str | None, node: str | None = "node-1", cores: str | None = "2", **more: Any
) -> Any:
    labels = {"spark-app-selector": application} | ({"spark-exec-id": executor} if executor else {})
    variables = [{"name": "OTHER", "value": "x"}] + (
        [{"name": "SPARK_EXECUTOR_CORES", "value": cores}] if cores else []
    )
    spec = {"containers": [{"name": "sidecar"}, {"name": "executor", "env": variables}], "nodeName": node}
    return {"metadata": {"labels": labels, **more.get("metadata", {})}, "spec": spec, "status": more.get("status", {})}


def test_an_executor_is_granted_when_it_has_a_node():
    found = executor_pods(
        [pod("app-1", "1"), pod("app-1", "2", "node-2"), pod("app-1", "3", None), pod("app-2", "1")], str
    )
    assert found.granted == {"app-1": 4, "app-2": 2}
    assert found.pending == {"app-1": 2}
    assert found.workers == {"app-1": {"1": "node-1", "2": "node-2"}, "app-2": {"1": "node-1"}}


def test_the_caller_chooses_the_worker_of_a_node():
    assert executor_pods([pod("app", "1")], lambda _: "team").workers == {"app": {"1": "team"}}


def test_drivers_other_pods_and_executors_that_end_do_not_count():
    pods = [
        pod("app", None),
        {"metadata": {}, "spec": {"containers": []}},
        pod("app", "1", status={"phase": "Failed"}),
        pod("app", "2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    found = executor_pods(pods, str)
    assert (found.granted, found.pending, found.workers) == ({}, {}, {})


def test_an_executor_that_does_not_state_its_cores_has_one():
    assert executor_pods([pod("app", "1", cores=None)], str).granted == {"app": 1}
