"""A Spark job on Kubernetes whose driver pod the test creates directly through the API, without spark-submit on the side of the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace

SCRIPT = "/opt/job/job.py"

CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"

DRIVER_MEMORY = "1100Mi"


def create_job(namespace: Namespace, url: str, script: str, *, name: str = "job", executors: int = 1) -> None:
    """Create the service account, the script and the driver pod of a job."""
    namespace.create_service_account(name)
    namespace.create("ConfigMap", name, {"data": {"job.py": script}})
    namespace.create("Pod", name, {"spec": _driver(namespace, url, name, executors)})


def _driver(namespace: Namespace, url: str, name: str, executors: int) -> Mapping[str, Any]:
    properties = {
        "spark.app.name": name,
        "spark.driver.host": "$(SPARK_DRIVER_BIND_ADDRESS)",
        "spark.driver.memory": "512m",
        "spark.executor.cores": 1,
        "spark.executor.instances": executors,
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "200m",
        "spark.kubernetes.authenticate.caCertFile": f"{CREDENTIALS}/ca.crt",
        "spark.kubernetes.authenticate.oauthTokenFile": f"{CREDENTIALS}/token",
        "spark.kubernetes.container.image": SPARK,
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.kubernetes.namespace": namespace.name,
        "spark.ui.enabled": "false",
    }
    options = [part for key, value in properties.items() for part in ("--conf", f"{key}={value}")]
    container = {
        "name": "driver",
        "image": SPARK,
        "args": ["driver", "--master", f"k8s://{url}", *options, SCRIPT],
        "env": [{"name": "SPARK_DRIVER_BIND_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": DRIVER_MEMORY}, "limits": {"memory": DRIVER_MEMORY}},
        "volumeMounts": [{"name": "script", "mountPath": "/opt/job"}],
    }
    return {
        "restartPolicy": "Never",
        "serviceAccountName": name,
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": name}}],
    }
