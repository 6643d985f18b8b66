"""The pod templates of a job: what the client adds to them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import SubmissionRefusedError

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
