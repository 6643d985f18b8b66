"""The calculated requests are those of the pods that Spark itself creates. No node is needed: the pods wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_driver, planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive._core.ports import Request, Resources
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.api import Json
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace

PYTHON = {"spark.kubernetes.resource.type": "python", "spark.kubernetes.memoryOverheadFactor": "0.4"}
"""What spark-submit passes to the driver of a Python application."""

APPLICATION = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
print("started", flush=True)
sys.stdin.read()
"""

TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {"name": "logs", "image": "any", "resources": {"requests": {"cpu": "300m", "memory": "64Mi"}}},
            {"name": "main", "resources": {"requests": {"cpu": "7", "memory": "7Gi"}}},
        ],
        "initContainers": [
            {"name": "proxy", "image": "any", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
        ],
    },
}

EXECUTORS: list[dict[str, str]] = [
    {},
    {"spark.executor.cores": "3", "spark.executor.memory": "3g", "spark.executor.memoryOverheadFactor": "0.2"},
    {
        "spark.executor.memory": "1000m",
        "spark.executor.minMemoryOverhead": "600m",
        "spark.executor.pyspark.memory": "700m",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "250m",
        "spark.kubernetes.executor.request.cores": "250m",
        "spark.kubernetes.executor.podTemplateContainerName": "main",
        "spark.kubernetes.executor.podTemplateFile": "template",
    },
]

DRIVERS: list[dict[str, str]] = [
    {},
    {
        "spark.driver.cores": "2",
        "spark.driver.memory": "1500m",
        "spark.driver.memoryOverheadFactor": "0.33",
        "spark.kubernetes.driver.request.cores": "0.5",
        "spark.kubernetes.driver.podTemplateContainerName": "main",
        "spark.kubernetes.driver.podTemplateFile": "template",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "250m",
    },
]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    file = tmp_path / "template.yaml"
    file.write_text(yaml.safe_dump(TEMPLATE))
    return file


def properties(cluster: KubernetesCluster, team: Namespace, template: Path, conf: Mapping[str, str]) -> list[str]:
    """Return the arguments of spark-submit."""
    control_plane = cluster.control_plane
    kubeconfig = control_plane.write_kubeconfig("spark", control_plane.admin)
    own = {name: str(template) if value == "template" else value for name, value in conf.items()}
    common = {
        "spark.kubernetes.namespace": team.name,
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "default",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.ui.enabled": "false",
    }
    arguments = [f"--conf={name}={value}" for name, value in {**common, **own}.items()]
    os.environ["KUBECONFIG"] = str(kubeconfig)
    return ["--master", f"k8s://{control_plane.url}", *arguments]


@contextmanager
def spark_submit(arguments: list[str], application: Path) -> Iterator[subprocess.Popen[str]]:
    script = Path(pyspark.__file__).parent / "bin/spark-submit"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(script), *arguments, str(application)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def first_pod(team: Namespace, role: str) -> Json:
    def found() -> Json | None:
        return next(iter(team.pods(f"spark-role={role}")), None)

    return wait_until(found, 180, f"{role} pod")


def check(pod: Json, planned: Request) -> None:
    assert pod_request(pod) == Resources(planned.cpu_millicores, planned.memory_bytes)


def numbers(conf: Mapping[str, str], role: str) -> tuple[int, int]:
    memory = conf.get(f"spark.{role}.memory", "1g")
    size = int(memory[:-1]) * (1024 if memory.endswith("g") else 1)
    return int(conf.get(f"spark.{role}.cores", "1")), size


@pytest.mark.parametrize("conf", EXECUTORS, ids=["defaults", "factor", "everything"])
def test_the_first_real_executor_has_the_calculated_request(
    kubernetes_control_plane: KubernetesCluster, team: Namespace, template: Path, tmp_path: Path, monkeypatch, conf
):
    monkeypatch.setenv("KUBECONFIG", "")
    application = tmp_path / "application.py"
    application.write_text(APPLICATION)
    arguments = properties(kubernetes_control_plane, team, template, PYTHON | conf)
    expected = planned_executor(conf, *numbers(conf, "executor"), used_template(conf))
    with spark_submit([*arguments, "--deploy-mode=client", "--conf=spark.driver.host=127.0.0.1"], application):
        check(first_pod(team, "executor"), expected)


@pytest.mark.parametrize("conf", DRIVERS, ids=["defaults", "everything"])
def test_the_driver_of_spark_submit_has_the_calculated_request(
    kubernetes_control_plane: KubernetesCluster, team: Namespace, template: Path, monkeypatch, conf
):
    monkeypatch.setenv("KUBECONFIG", "")
    arguments = properties(kubernetes_control_plane, team, template, conf)
    expected = planned_driver(conf, *numbers(conf, "driver"), used_template(conf))
    with spark_submit([*arguments, "--deploy-mode=cluster"], Path("local:///application.py")):
        check(first_pod(team, "driver"), expected)


def used_template(conf: Mapping[str, str]) -> dict[str, Any] | None:
    return TEMPLATE if any(name.endswith("podTemplateFile") for name in conf) else None
