"""The properties of a driver let it create exactly the executors that the scheduler requests, and protect its secrets."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.driver.properties import (
    launch_properties,
    spark_properties,
)
from airflow_adaptive._clusters.kubernetes.names import DriverIdentity
from airflow_adaptive._clusters.properties import secret_properties
from airflow_adaptive._core.ports import DriverSubmission

ADDRESS = KubernetesAddress(
    server="https://api:6443", namespace="team-a", conf={"spark.a": "connection", "spark.b": "connection"}
)
SUBMISSION = DriverSubmission(
    name="Team_A.x",
    script="/jobs/run.py",
    py_files=["/jobs/a.zip", "/jobs/b.py"],
    epoch=3,
    nonce="n",
    conf={"spark.a": "job", "spark.dynamicAllocation.enabled": "true", "spark.driver.port": "1"},
    driver_memory_mb=600,
    executors=2,
    max_executors=40,
    executor_cores=2,
    executor_memory_mb=700,
)

POD = DriverIdentity("Team_A.x", 3, "n").pod


def test_the_driver_creates_exactly_the_executors_that_the_scheduler_wants():
    properties = spark_properties(SUBMISSION, ADDRESS)
    assert {
        "spark.dynamicAllocation.enabled": "false",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.executor.cores": "2",
        "spark.executor.instances": "2",
        "spark.executor.memory": "700m",
        "spark.kubernetes.allocation.batch.size": "40",
        "spark.kubernetes.allocation.pods.allocator": "direct",
    }.items() <= properties.items()


def test_refused_executor_pods_do_not_end_the_driver():
    properties = spark_properties(SUBMISSION, ADDRESS)
    assert int(properties["spark.executor.maxNumFailures"]) > 10**5
    assert properties["spark.executor.failuresValidityInterval"] == "1h"


def test_spark_writes_the_final_exception_of_a_driver_into_the_annotation_that_is_read():
    assert spark_properties(SUBMISSION, ADDRESS)["spark.kubernetes.driver.annotateExitException"] == "true"


def test_the_driver_pod_owns_executors_of_its_name():
    properties = spark_properties(SUBMISSION, ADDRESS)
    assert {
        "spark.app.id": POD,
        "spark.app.name": "Team_A.x",
        "spark.kubernetes.driver.pod.name": POD,
        "spark.kubernetes.executor.podNamePrefix": POD,
        "spark.kubernetes.executor.label.airflow-adaptive/epoch": "3",
        "spark.kubernetes.executor.label.app.kubernetes.io/managed-by": "airflow-adaptive",
        "spark.kubernetes.namespace": "team-a",
        "spark.kubernetes.submitInDriver": "true",
        "spark.master": "k8s://https://api:6443",
        "spark.submit.pyFiles": "/jobs/a.zip,/jobs/b.py",
    }.items() <= properties.items()


def test_properties_of_the_job_override_those_of_the_connection_and_defaults():
    properties = spark_properties(SUBMISSION, ADDRESS)
    assert (properties["spark.a"], properties["spark.b"], properties["spark.driver.port"]) == ("job", "connection", "1")
    assert properties["spark.kubernetes.memoryOverheadFactor"] == "0.4"


def test_the_page_of_executors_links_to_the_log_collector_of_the_connection():
    name = "spark.ui.custom.executor.log.url"
    assert name not in spark_properties(SUBMISSION, ADDRESS)
    address = replace(ADDRESS, log_url="https://logs/{namespace}/{pod}")
    assert spark_properties(SUBMISSION, address)[name] == "https://logs/team-a/{{POD_NAME}}"
    own = replace(SUBMISSION, conf={name: "https://other"})
    assert spark_properties(own, address)[name] == "https://other"


OWN_CLAIMS = "spark.kubernetes.driver.ownPersistentVolumeClaim"


def test_a_driver_without_volumes_on_demand_sends_no_requests_for_claims_and_services():
    properties = spark_properties(SUBMISSION, ADDRESS)
    assert properties[OWN_CLAIMS] == properties["spark.kubernetes.driver.reusePersistentVolumeClaim"] == "false"
    assert properties["spark.kubernetes.driver.service.deleteOnTermination"] == "false"


def test_a_driver_with_volumes_on_demand_owns_the_claims():
    claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1.options.claimName"
    assert OWN_CLAIMS not in spark_properties(replace(SUBMISSION, conf={claim: "OnDemand"}), ADDRESS)


def test_secrets_that_the_runtime_sets():
    secrets = {
        "spark.hadoop.fs.s3a.secret.key": "v",
        "spark.driver.my.password": "v",
        "spark.driver.extraJavaOptions": "-Dproxy=http://u:v@proxy",
    }
    found = secret_properties({**secrets, "spark.public": "v"}, frozenset())
    assert set(found) == {"spark.hadoop.fs.s3a.secret.key", "spark.driver.my.password"}


def test_properties_that_spark_submit_reads_include_the_credentials_of_hadoop():
    properties = {
        "spark.hadoop.fs.s3a.secret.key": "v",
        "spark.driver.my.password": "v",
        "spark.my.password": "v",
        "spark.public": "v",
    }
    assert set(launch_properties(properties)) == {"spark.hadoop.fs.s3a.secret.key", "spark.public"}
