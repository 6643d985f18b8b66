"""The pod templates of a job, and the Spark properties of a driver on Kubernetes with their file. Pure.

Theory: the driver pod takes the place of spark-submit in cluster mode. Tier 0 changes the number of executors through `requestTotalExecutors`,
which only the allocator `direct` honors in both directions. Dynamic allocation is off, because its timeouts would remove idle executors;
the allocator still reads `executorIdleTimeout`, and removes Pending executors above the target after this time. A refused executor pod counts as a
failed executor, so a quota that shrinks would end the driver within seconds; the scheduler limits failures instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_adaptive._clusters.connection_fields import EXECUTOR_ENVIRONMENT, EXECUTOR_OPTIONS
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.names import DriverIdentity, Json
from airflow_adaptive._clusters.properties import REDACTION, common_properties, redaction_pattern, secret_properties
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError

RESTART_POLICY: Final = "Never"

NODE_ATTRIBUTE: Final = "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME"
POD_ATTRIBUTE: Final = "SPARK_EXECUTOR_ATTRIBUTE_POD_NAME"
"""Spark publishes environment variables with this prefix as attributes of an executor."""

POD_PATTERN: Final = "{{POD_NAME}}"
"""Name of an executor's pod in `spark.ui.custom.executor.log.url`."""

EXECUTOR_CONTAINER: Final = "spark-kubernetes-executor"

CONTAINERS: Final = ("initContainers", "containers")

LAST_OUTPUT: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""The status of a container that fails contains the end of its output. Spark deletes the pod of an executor, with its log, when it has failed."""

NO_VARIABLES: Final[Mapping[str, str]] = {}


def read_template(text: str | None) -> dict[str, Any]:
    """Return the pod template of a driver or an executor, from JSON; empty without one. The operator has checked it."""
    return dict(json.loads(text or "{}"))


def spark_container(role: str, template: Json, conf: Mapping[str, str]) -> tuple[Json, list[Json]]:
    """Return Spark's container of a template, and the others, as Spark selects it. Raises `SubmissionRefusedError`."""
    containers = [*((template.get("spec") or {}).get("containers") or ())]
    selector = f"spark.kubernetes.{role}.podTemplateContainerName"
    if selector not in conf:
        return (containers[0], containers[1:]) if containers else ({}, [])
    own = [each for each in containers if each.get("name") == conf[selector]]
    if not own:
        raise SubmissionRefusedError(f"{selector}: the pod template of the {role} has no container {conf[selector]!r}")
    return own[0], [each for each in containers if each is not own[0]]


def merged_env(given: Iterable[Json], own: Iterable[Json]) -> list[Json]:
    """Return environment variables. Own variables replace given ones, and come last, because they may refer to given ones."""
    named = {each["name"]: each for each in own}
    return [*(each for each in given if each.get("name") not in named), *named.values()]


def literal(text: str) -> str:
    """Return an argument, or the value of an environment variable, that arrives in the container as the text.

    The kubelet replaces `$(NAME)`, and `$$` by `$` (`third_party/forked/golang/expansion` of Kubernetes).
    """
    return text.replace("$", "$$")


def executor_template(
    text: str | None, conf: Mapping[str, str], variables: Mapping[str, str] = NO_VARIABLES
) -> dict[str, Any]:
    """Return the pod template that Spark reads for executors. Each executor reports its pod, and the node on which it runs.

    `variables` are environment variables of the executors, in addition to those that Spark sets. Raises `SubmissionRefusedError`.
    """
    template = read_template(text)
    container, others = spark_container("executor", template, conf)
    fields = {NODE_ATTRIBUTE: "spec.nodeName", POD_ATTRIBUTE: "metadata.name"}
    attributes = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    literals = [{"name": name, "value": literal(value)} for name, value in variables.items()]
    env = merged_env(container.get("env") or (), [*literals, *attributes])
    own = {"name": EXECUTOR_CONTAINER, **container, "env": env}
    spec = {**(template.get("spec") or {}), "containers": [own, *others]}
    parts = {name: [{**LAST_OUTPUT, **each} for each in spec[name]] for name in CONTAINERS if spec.get(name)}
    return {"apiVersion": "v1", "kind": "Pod", **template, "spec": {**spec, **parts}}


FOLDER: Final = "/etc/airflow-adaptive"
"""Folder of the driver's container with the files below."""

PROPERTIES_FILE: Final = "spark.properties"
TEMPLATE_FILE: Final = "executor-pod.json"

HADOOP_PREFIX: Final = "spark.hadoop."

DEFAULTS: Final = {
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.kubernetes.driver.annotateExitException": "true",
    "spark.kubernetes.memoryOverheadFactor": "0.4",
}
"""Properties that the user's own properties override: fixed ports for network policies, and what spark-submit sets for Python."""

EXECUTOR_LOG_URL: Final = "spark.ui.custom.executor.log.url"
"""Address of the log of an executor, on the page of executors in the UI of the driver."""

AS_VARIABLES: Final = (*EXECUTOR_OPTIONS, "spark.executor.extraClassPath", "spark.executor.extraLibraryPath")
"""Properties that Spark passes to executors in environment variables of their pods, and uses nowhere else (`BasicExecutorFeatureStep`)."""

PENDING_TIMEOUT: Final = "5s"

ON_DEMAND: Final = "OnDemand"
"""Claim of a volume that Spark creates for each executor (`spark.kubernetes.executor.volumes.*.options.claimName`)."""

WITHOUT_CLAIMS: Final = {
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
"""For a driver that creates no claims, so that it needs no permission for claims. The user's own properties override them."""


def spark_properties(submission: DriverSubmission, address: KubernetesAddress) -> dict[str, str]:
    """Return all properties of a driver, including secret properties. Raises `SubmissionRefusedError`."""
    identity = DriverIdentity(submission.name, submission.epoch, submission.nonce)
    executor_labels = {f"spark.kubernetes.executor.label.{name}": value for name, value in identity.labels.items()}
    given = {
        name: literal(value) if name in AS_VARIABLES else value
        for name, value in {**address.conf, **submission.conf}.items()
    }
    return {
        **DEFAULTS,
        REDACTION: redaction_pattern(address.secret_names),
        **({EXECUTOR_LOG_URL: address.log_page(POD_PATTERN)} if address.log_url else {}),
        **({} if ON_DEMAND in given.values() else WITHOUT_CLAIMS),
        **given,
        **_sizes(submission),
        **_cluster(identity, address),
        "spark.app.name": submission.conf.get("spark.app.name", submission.name),
        **executor_labels,
        **({"spark.submit.pyFiles": ",".join(submission.py_files)} if submission.py_files else {}),
    }


def variables_of_template(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of executors that belong into their pod template instead of Spark's properties: property -> variable.

    Spark copies `spark.executorEnv.*` to the pods, where Kubernetes would expand the values, and to Python workers as they are.
    """
    return {
        name: name.removeprefix(EXECUTOR_ENVIRONMENT)
        for name, value in properties.items()
        if "$" in value and _VARIABLE.fullmatch(name)
    }


def _cluster(identity: DriverIdentity, address: KubernetesAddress) -> dict[str, str]:
    return {
        "spark.app.id": identity.pod,
        "spark.master": address.master_url,
        "spark.kubernetes.allocation.pods.allocator": "direct",
        "spark.kubernetes.driver.pod.name": identity.pod,
        "spark.kubernetes.driver.service.deleteOnTermination": "false",  # There is no Service.
        "spark.kubernetes.executor.podNamePrefix": identity.pod,
        "spark.kubernetes.executor.podTemplateFile": f"{FOLDER}/{TEMPLATE_FILE}",
        "spark.kubernetes.namespace": address.namespace,
        "spark.kubernetes.resource.type": "python",
        "spark.kubernetes.submitInDriver": "true",
    }


def _sizes(submission: DriverSubmission) -> dict[str, str]:
    return {
        **common_properties(submission),
        "spark.driver.cores": str(submission.driver_cores),
        "spark.driver.memory": f"{submission.driver_memory_mb}m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.dynamicAllocation.executorIdleTimeout": PENDING_TIMEOUT,
        "spark.executor.failuresValidityInterval": "1h",
        "spark.executor.instances": str(
            max(submission.executors, 1)
        ),  # spark-submit refuses 0, with which a standby may start
        "spark.executor.maxNumFailures": str(10**6),
        "spark.kubernetes.allocation.batch.size": str(submission.max_executors),
    }


def launch_properties(properties: Mapping[str, str], names: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the properties that spark-submit reads: all but secrets that only the session needs. The arguments are those of `secret_properties`.

    spark-submit loads the code from the job directory before the runtime starts, so it needs the credentials of Hadoop's file systems.
    """
    secrets = secret_properties(properties, names)
    return {name: value for name, value in properties.items() if name not in secrets or name.startswith(HADOOP_PREFIX)}


_VARIABLE: Final = re.compile(re.escape(EXECUTOR_ENVIRONMENT) + "[-._a-zA-Z][-._a-zA-Z0-9]*")
"""Spark ignores variables with other names."""
