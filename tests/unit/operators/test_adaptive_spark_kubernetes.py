"""Parameters of the operator for jobs on Kubernetes."""

import json

import pytest

from airflow_adaptive._airflow.internals import AirflowFailException
from airflow_adaptive.operators.adaptive_spark import KUBERNETES, AdaptiveSparkOperator
from tests.support.airflow.operator_fakes import TASK, FakeInstance, deferral, staged


@pytest.fixture(autouse=True)
def _kubernetes(monkeypatch):
    fields = {"conn_type": "spark", "host": "k8s://https://api:6443", "extra": {"namespace": "team-a"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", json.dumps(fields))
    credentials = {"conn_type": "kubernetes", "extra": {"in_cluster": True}}
    for name in ("STAGING", "KUBERNETES_DEFAULT"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(credentials))


def test_parameters_reach_the_triggerer(make, airflow):
    operator = make(
        conn_id="spark_k8s",
        kubernetes_conn_id="staging",
        namespace="team-b",
        image="spark:4.2",
        labels={"team": "b"},
        conf={"spark.kubernetes.driver.volumes.persistentVolumeClaim.jobs.options.claimName": "jobs"},
        tolerations=[{"operator": "Exists"}],
    )
    trigger = deferral(operator.execute, {"ti": FakeInstance()})
    assert trigger.connections == {"spark": "spark_k8s", "kubernetes": "staging", "namespace": "team-b", "kafka": ""}
    conf = trigger._job.conf
    assert conf["spark.kubernetes.container.image"] == "spark:4.2"
    assert conf["spark.kubernetes.executor.label.team"] == "b"
    assert conf["spark.kubernetes.driver.volumes.persistentVolumeClaim.jobs.options.claimName"] == "jobs"
    assert json.loads(trigger._job.driver_template or "") == {"spec": {"tolerations": [{"operator": "Exists"}]}}


def test_request_of_a_pod_includes_the_memory_overhead_of_spark(make):
    conf = {"spark.kubernetes.executor.request.cores": "500m", "spark.executor.memoryOverhead": "512m"}
    spec = staged(make(conn_id="spark_k8s", image="spark:4.2", conf=conf, executor_memory="1g", driver_memory="1g"))
    assert spec.executor.requested is not None
    assert (spec.executor.request.cpu_millicores, spec.executor.request.memory_bytes) == (500, (1024 + 512) << 20)
    assert spec.driver.request.memory_bytes > 1024 << 20


def test_another_template_is_another_deployment(make):
    one, other = (
        staged(make(conn_id="spark_k8s", image="spark:4.2", priority_class_name=name)) for name in ("low", "high")
    )
    assert one.deployment != other.deployment


def test_all_parameters_of_kubernetes_are_templated():
    assert {"kubernetes_conn_id", "namespace", *KUBERNETES} <= {*AdaptiveSparkOperator.template_fields}


def test_violations_are_part_of_the_one_error(make):
    with pytest.raises(AirflowFailException) as raised:
        make(
            conn_id="spark_k8s",
            parallelism=(4, 1),
            driver_pod_template={"spec": {"restartPolicy": "Always"}},
            annotations={"api-token": "hush"},
            conf={"spark.executor.memoryOverhead": "much"},
        )._spec("attempt", TASK)
    message = str(raised.value)
    for thing in (
        "lower bound 4",
        "spec.restartPolicy 'Always'",
        "image is missing",
        "spark.executor.memoryOverhead",
        "annotations['api-token']: Airflow would store",
    ):
        assert thing in message
    assert "hush" not in message


def test_parameters_of_kubernetes_have_no_effect_on_a_standalone_cluster(make, spark_default):
    with pytest.raises(
        AirflowFailException, match="image: no effect, because connection 'spark_default' names a standalone cluster"
    ):
        make(image="spark:4.2")._spec("attempt", TASK)
