"""Where a job may run: its cluster, its parameters for this cluster, and the directory in which it runs already."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.placement import RunningJob, cluster, requested, unmoved
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape

STANDALONE = ConnectionIds("spark_test")
KUBERNETES = ConnectionIds("spark_k8s")
NONE = KubernetesParameters()
IMAGE = KubernetesParameters(image="spark:4.2")


@pytest.fixture(autouse=True)
def define(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Define the extra field `conf` of a connection."""

    def define(connections: ConnectionIds, **conf: str) -> None:
        host = "k8s://https://api:6443" if connections == KUBERNETES else "spark://h1:7077"
        fields = {"conn_type": "spark", "host": host, "extra": {"conf": conf}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{connections.spark.upper()}", json.dumps(fields))

    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", '{"conn_type": "kubernetes", "extra": {"in_cluster": true}}')
    define(STANDALONE)
    define(KUBERNETES)
    return define


def violations(
    connections: ConnectionIds,
    parameters: KubernetesParameters = NONE,
    conf: dict[str, Any] | None = None,
    *,
    streaming: bool = True,
) -> list[str]:
    try:
        cluster(connections, parameters, conf, streaming=streaming)
    except DeclarationError as error:
        return list(error.violations)
    return []


def test_connection_is_checked_for_properties_too(define: Any) -> None:
    define(STANDALONE, **{"spark.executor.cores": "4", "spark.my.secret": "hush"})
    assert violations(STANDALONE) == [
        "connection 'spark_test': extra conf['spark.executor.cores'] would have no effect: use the parameter "
        "'executor_cores' of the operator"
    ]


def test_properties_in_the_connection_of_a_kubernetes_cluster_are_checked_too(define: Any) -> None:
    define(KUBERNETES, **{"spark.kubernetes.namespace": "a", "spark.kubernetes.container.image": "spark:4.2"})
    assert violations(KUBERNETES) == [
        "connection 'spark_k8s': extra conf['spark.kubernetes.namespace'] would have no effect: use the parameter 'namespace' of the operator"
    ]


def test_parameters_of_kubernetes_on_a_standalone_cluster_are_refused_with_the_remedy() -> None:
    assert violations(STANDALONE, KubernetesParameters(image="spark:4.2", labels={"team": "a"})) == [
        "image, labels: no effect, because connection 'spark_test' names a standalone cluster. Leave the parameters out, or use a connection "
        "with the host k8s://https://host:port"
    ]


def test_job_on_kubernetes_needs_an_image(define: Any) -> None:
    (violation,) = violations(KUBERNETES)
    assert violation.startswith(
        "image is missing: set the parameter 'image', or conf['spark.kubernetes.container.image']"
    )
    assert violations(KUBERNETES, IMAGE) == []
    assert violations(KUBERNETES, conf={"spark.kubernetes.container.image": "spark:4.2"}) == []
    both = {f"spark.kubernetes.{role}.container.image": "spark:4.2" for role in ("driver", "executor")}
    assert violations(KUBERNETES, conf=both) == []
    define(KUBERNETES, **{"spark.kubernetes.container.image": "spark:4.2"})
    assert violations(KUBERNETES) == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("spark.kubernetes.namespace", "use the parameter 'namespace'"),
        ("spark.kubernetes.context", "use the parameter 'kubernetes_conn_id'"),
        ("spark.kubernetes.authenticate.submission.oauthToken", "use the parameter 'kubernetes_conn_id'"),
        ("spark.kubernetes.driver.podTemplateFile", "use the parameter 'driver_pod_template'"),
        ("spark.kubernetes.driver.secrets.db", "use the parameter 'driver_pod_template'"),
        ("spark.kubernetes.driverEnv.A", "use the parameter 'env_vars'"),
        ("spark.executor.maxNumFailures", "is determined by airflow-adaptive: leave it out"),
        ("spark.driver.host", "is determined by airflow-adaptive: leave it out"),
        ("spark.kubernetes.allocation.pods.allocator", "is determined by airflow-adaptive: leave it out"),
    ],
)
def test_property_without_effect_on_kubernetes_is_refused_with_the_remedy(name: str, remedy: str) -> None:
    (violation,) = violations(KUBERNETES, IMAGE, {name: "x"})
    assert violation.startswith(f"conf[{name!r}] ")
    assert remedy in violation
    assert violations(STANDALONE, conf={name: "x"}) == []


def test_property_of_a_parameter_is_not_set_twice() -> None:
    (violation,) = violations(KUBERNETES, IMAGE, {"spark.kubernetes.container.image": "other"})
    assert violation == (
        "conf['spark.kubernetes.container.image'] and a parameter of the operator set the same property: leave one of them out"
    )


def test_missing_credentials_are_refused_and_never_replaced_by_the_default_kubeconfig(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/production")
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT")
    (violation,) = violations(KUBERNETES, IMAGE)
    assert violation.startswith("connection 'kubernetes_default' is not defined: add it")
    assert violations(STANDALONE) == []


def test_batch_on_kubernetes_is_refused_with_the_remedy() -> None:
    (violation,) = violations(KUBERNETES, streaming=False)
    assert "does not run batches: use SparkKubernetesOperator or SparkSubmitOperator" in violation


def test_running_job_cannot_move_to_another_namespace() -> None:
    running = RunningJob(connections=KUBERNETES, directory="s3://jobs/a")
    unmoved(running, KUBERNETES, "s3://jobs/a")
    with pytest.raises(DeclarationError, match="conn_id 'spark_k8s' names another cluster"):
        unmoved(running, ConnectionIds("spark_k8s", namespace="team-b"), "s3://jobs/a")


def test_missing_libraries_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("airflow_adaptive._clusters.kubernetes.capacity")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.utils.quantity", None)
    with pytest.raises(
        DeclarationError, match="connection 'spark_k8s' names a Kubernetes cluster: install 'airflow-adaptive"
    ):
        requested(KUBERNETES, IMAGE, {}, DriverShape(), ExecutorShape())
    assert requested(STANDALONE, NONE, {}, DriverShape(), ExecutorShape()) == (DriverShape(), ExecutorShape())
