"""The parameters of a job that apply on Kubernetes only: their validation, and their conversion to Spark properties and pod templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from airflow_adaptive._airflow.declaration.pod_template import TemplateError, read_template, secret_variables

IMAGE = "spark.kubernetes.container.image"
IMAGES = ("spark.kubernetes.driver.container.image", "spark.kubernetes.executor.container.image")
SERVICE_ACCOUNT = "spark.kubernetes.authenticate.driver.serviceAccountName"
NODE_SELECTOR = "spark.kubernetes.node.selector."
LABELS = ("spark.kubernetes.driver.label.", "spark.kubernetes.executor.label.")
ANNOTATIONS = ("spark.kubernetes.driver.annotation.", "spark.kubernetes.executor.annotation.")

RESERVED_LABELS = (
    "app.kubernetes.io/managed-by",
    "spark-app-name",
    "spark-app-selector",
    "spark-exec-id",
    "spark-role",
)
RESERVED_PREFIX = "airflow-adaptive/"

_PART = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
_KEY = re.compile(f"({_DOMAIN})?{_PART}")
_LABEL_VALUE = re.compile(f"({_PART})?")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesParameters:
    """Rendered parameters of the operator. Their names are the names in `KubernetesPodOperator`, except the templates.

    Attributes:
        image: container image with Spark, of driver and executors.
        service_account_name: service account of the driver.
        driver_pod_template: pod template of the driver: a mapping, or the path of a YAML file.
        executor_pod_template: likewise, of the executors.
        node_selector: labels of the nodes on which driver and executors may run.
        tolerations: tolerations of driver and executors.
        labels: labels of driver and executors.
        annotations: annotations of driver and executors.
        priority_class_name: priority class of driver and executors.
        image_pull_secrets: names of secrets with the credentials of the image registry.
    """

    image: str | None = None
    service_account_name: str | None = None
    driver_pod_template: str | Mapping[str, Any] | None = None
    executor_pod_template: str | Mapping[str, Any] | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Any] | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    priority_class_name: str | None = None
    image_pull_secrets: Sequence[Any] | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the parameters that have a value."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name))

    def conf(self) -> dict[str, str]:
        """Return the Spark properties that the parameters determine."""
        properties = {IMAGE: self.image, SERVICE_ACCOUNT: self.service_account_name}
        conf = {name: str(value) for name, value in properties.items() if value}
        conf |= {f"{NODE_SELECTOR}{key}": str(value) for key, value in (self.node_selector or {}).items()}
        for prefixes, values in ((LABELS, self.labels), (ANNOTATIONS, self.annotations)):
            conf |= {f"{prefix}{key}": str(value) for prefix in prefixes for key, value in (values or {}).items()}
        return conf

    def driver_template(self) -> str | None:
        """Return the pod template of the driver in JSON, None if nothing requires one. Raises `TemplateError`."""
        return self._template("driver_pod_template", self.driver_pod_template)

    def executor_template(self) -> str | None:
        """Return the pod template of an executor, likewise."""
        return self._template("executor_pod_template", self.executor_pod_template)

    def violations(
        self, conf: Mapping[str, Any], connection_conf: Mapping[str, str], *, with_image: bool = True
    ) -> Iterator[str]:
        """Yield all violations of a job on Kubernetes.

        Args:
            conf: Spark properties of the job.
            connection_conf: Spark properties in the connection.
            with_image: whether pods are started, which need an image.
        """
        known = {**connection_conf, **conf}
        if with_image and not self.image and IMAGE not in known and not all(name in known for name in IMAGES):
            yield f"image is missing: set the parameter 'image', or conf[{IMAGE!r}] of the job or of the connection"
        wrong_types = [*self._violations_of_types()]
        yield from wrong_types
        yield from self._violations_of_templates()
        if wrong_types:
            return
        yield from self._violations_of_keys()
        yield from self._violations_of_names()
        for name in self.conf():
            if name in conf:
                yield f"conf[{name!r}] and a parameter of the operator set the same property: leave one of them out"

    def _violations_of_types(self) -> Iterator[str]:
        for name in ("node_selector", "labels", "annotations"):
            if not isinstance(getattr(self, name) or {}, Mapping):
                yield f"{name} must be a mapping, as {{'name': 'value'}}"
        for name in ("tolerations", "image_pull_secrets"):
            value = getattr(self, name) or []
            if isinstance(value, str) or not isinstance(value, Sequence):
                yield f"{name} must be a list"
        for name in ("image", "service_account_name", "priority_class_name"):
            if not isinstance(getattr(self, name) or "", str):
                yield f"{name} {getattr(self, name)!r} must be text"

    def _violations_of_keys(self) -> Iterator[str]:
        for name in ("node_selector", "labels", "annotations"):
            for key, value in (getattr(self, name) or {}).items():
                if not _KEY.fullmatch(str(key)):
                    yield f"{name}: {key!r} is not a valid key of Kubernetes"
                if name != "annotations" and not _LABEL_VALUE.fullmatch(str(value)):
                    yield f"{name}: the value {value!r} of {key!r} is not valid: use at most 63 letters, digits, '-', '_' and '.'"
                if name == "labels" and (key in RESERVED_LABELS or str(key).startswith(RESERVED_PREFIX)):
                    yield f"labels: {key!r} is reserved: leave it out"

    def _violations_of_names(self) -> Iterator[str]:
        names = {name: getattr(self, name) for name in ("service_account_name", "priority_class_name")}
        for name, value in names.items():
            if value and not _NAME.fullmatch(value):
                yield f"{name} {value!r} is not the name of an object of Kubernetes"
        for secret in _plain(self.image_pull_secrets or []):
            if not _NAME.fullmatch(str(_secret_name(secret))):
                yield f"image_pull_secrets: {secret!r} is not the name of a Secret"
        for toleration in _plain(self.tolerations or []):
            if not isinstance(toleration, Mapping):
                yield f"tolerations: {toleration!r} is not a mapping, for example {{'key': 'dedicated', 'operator': 'Exists'}}"

    def _violations_of_templates(self) -> Iterator[str]:
        for name in ("driver_pod_template", "executor_pod_template"):
            template = getattr(self, name)
            if template is None:
                continue
            try:
                document = read_template(name, template)
            except TemplateError as error:
                yield from error.violations
                continue
            for variable in secret_variables(document):
                yield (
                    f"{name}: Airflow would store the secret value of the variable {variable!r} in clear text. Read the value from a Secret "
                    "of the cluster (valueFrom.secretKeyRef), or set the variable in the extra field 'secret-env' of the connection"
                )
            theirs = (document.get("spec") or {}).get("priorityClassName")
            if self.priority_class_name and theirs not in (None, self.priority_class_name):
                yield f"priority_class_name {self.priority_class_name!r} contradicts {theirs!r} in {name}: leave one of them out"

    def _template(self, name: str, declared: str | Mapping[str, Any] | None) -> str | None:
        template = read_template(name, declared) if declared is not None else {}
        spec = dict(template.get("spec") or {})
        if self.tolerations:
            spec["tolerations"] = [*(spec.get("tolerations") or []), *_plain(self.tolerations)]
        if self.image_pull_secrets:
            secrets = [{"name": _secret_name(secret)} for secret in _plain(self.image_pull_secrets)]
            spec["imagePullSecrets"] = [*(spec.get("imagePullSecrets") or []), *secrets]
        if self.priority_class_name:
            spec["priorityClassName"] = self.priority_class_name
        if spec:
            template["spec"] = spec
        return json.dumps(template, sort_keys=True, default=str) if template else None


def _secret_name(secret: Any) -> Any:
    return secret.get("name") if isinstance(secret, Mapping) else secret


def _plain(value: Any) -> Any:
    """The value as plain data. `KubernetesPodOperator` accepts objects of the Kubernetes client, so this operator does, too."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    names = getattr(value, "attribute_map", None)
    if names is None:
        return value
    given = {json_name: getattr(value, name) for name, json_name in names.items()}
    return {name: _plain(item) for name, item in given.items() if item is not None}
