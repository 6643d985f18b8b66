"""The parameters of a job that apply on Kubernetes only: their validation, and their conversion to Spark properties and pod templates.

The API server validates the complete pod. The checks of templates here find errors that Kubernetes would report late or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from airflow_adaptive._core.protocol.secret_names import is_secret

KIND = {"apiVersion": "v1", "kind": "Pod"}

FIELDS = ("apiVersion", "kind", "metadata", "spec")

RESTART_POLICY = "Never"
"""The scheduler starts each driver, and Spark starts each executor. A container that the kubelet starts again would be a second driver."""

RESTARTS = ("restartPolicy", "restartPolicyRules")
"""Fields with which the kubelet restarts a single container."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A value without fields: what it must be, and whether a value is so."""

    description: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Several:
    """A list of mappings of one shape, each of which has the fields `named_by` with text."""

    item: Mapping[str, Any] = field(default_factory=dict)
    named_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Each:
    """A mapping whose keys the user chooses, with values of one shape."""

    item: Plain


QUANTITY_TEXT = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)

TEXT = Plain("text: write it in quotes", lambda value: isinstance(value, str))
WHOLE = Plain("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
QUANTITY = Plain(
    "a quantity such as 500m or 1Gi",
    lambda value: not isinstance(value, bool) and QUANTITY_TEXT.fullmatch(str(value)) is not None,
)
LIST_OF_TEXT = Plain(
    "a list of text", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
)
OPERATOR = Plain(
    "one of In, NotIn, Exists, DoesNotExist, Gt and Lt",
    lambda value: value in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
)

RESOURCES = {"requests": Each(QUANTITY), "limits": Each(QUANTITY)}
CONTAINER = {
    "image": TEXT,
    "restartPolicy": TEXT,
    "command": LIST_OF_TEXT,
    "args": LIST_OF_TEXT,
    "env": Several({"value": TEXT, "valueFrom": {}}, ("name",)),
    "envFrom": Several(),
    "ports": Several(),
    "resources": RESOURCES,
    "volumeMounts": Several({}, ("name", "mountPath")),
    "securityContext": {},
}
REQUIREMENTS = Several({"operator": OPERATOR, "values": LIST_OF_TEXT}, ("key", "operator"))
TEMPLATE: Mapping[str, Any] = {
    "metadata": {"labels": Each(TEXT), "annotations": Each(TEXT), "namespace": TEXT, "name": TEXT},
    "spec": {
        "containers": Several(CONTAINER, ("name",)),
        "initContainers": Several(CONTAINER, ("name",)),
        "volumes": Several({}, ("name",)),
        "tolerations": Several({"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT}),
        "imagePullSecrets": Several(),
        "hostAliases": Several(),
        "topologySpreadConstraints": Several(),
        "nodeSelector": Each(TEXT),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": Several({"matchExpressions": REQUIREMENTS, "matchFields": REQUIREMENTS}),
                },
                "preferredDuringSchedulingIgnoredDuringExecution": Several(),
            },
            "podAffinity": {},
            "podAntiAffinity": {},
        },
        "overhead": Each(QUANTITY),
        "resources": RESOURCES,
        "securityContext": {},
        "dnsConfig": {},
        "nodeName": TEXT,
        "priorityClassName": TEXT,
        "runtimeClassName": TEXT,
        "schedulerName": TEXT,
        "serviceAccountName": TEXT,
        "activeDeadlineSeconds": WHOLE,
        "terminationGracePeriodSeconds": WHOLE,
    },
}
"""Shapes of the fields that the client reads, and of those that users set most. The API server validates all other fields."""


class TemplateError(ValueError):
    """A pod template is not valid."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


def read_template(name: str, template: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid pod template. A text is the path of a YAML file with one template, readable by Airflow.

    Raises:
        TemplateError: the file cannot be read, or the template is not a valid pod template.
    """
    document = _read(name, template) if isinstance(template, str) else template
    violations = [f"{name} {violation}" for violation in _violations(document)]
    if violations:
        raise TemplateError(violations)
    return dict(document)


def secret_variables(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of environment variables with secret values, which belong into a Secret of the cluster."""
    spec = template.get("spec") or {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        for variable in container.get("env") or ():
            if is_secret(str(variable.get("name")), str(variable.get("value") or "")) and variable.get("value"):
                yield str(variable["name"])


def _read(name: str, path: str) -> Any:
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TemplateError([f"{name} {path!r} cannot be read where Airflow runs ({error.strerror})"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TemplateError([f"{name} {path!r} does not contain one YAML document"]) from error


def _violations(template: Any) -> Iterator[str]:
    if not isinstance(template, Mapping):
        yield "is not a pod template: use a mapping with metadata and spec, or the path of a YAML file"
        return
    for name, value in KIND.items():
        if template.get(name, value) != value:
            yield f"has {name} {template[name]!r}: use {value!r}"
    unknown = [str(name) for name in template if name not in FIELDS]
    if unknown:
        yield f"has unknown fields {', '.join(unknown)}: a pod template has the fields {', '.join(FIELDS)}"
    yield from _shape_violations("", template, TEMPLATE)
    spec = template.get("spec")
    if isinstance(spec, Mapping):
        yield from _restart_violations(spec)


def _restart_violations(spec: Mapping[str, Any]) -> Iterator[str]:
    policy = spec.get("restartPolicy", RESTART_POLICY)
    if policy != RESTART_POLICY:
        yield f"has spec.restartPolicy {policy!r}: use {RESTART_POLICY!r}, because the scheduler restarts the driver"
    containers = spec.get("containers")
    items = containers if isinstance(containers, list) else []
    if any({*RESTARTS} & {*item} for item in items if isinstance(item, Mapping)):
        yield f"has {' or '.join(RESTARTS)} in spec.containers: remove it, because the scheduler restarts the driver"


def _shape_violations(path: str, value: Any, shape: Any) -> Iterator[str]:
    """Yield what a value has instead of its shape. The API server decides about a field that is empty."""
    match shape:
        case Mapping() if isinstance(value, Mapping):
            for name, inner in shape.items():
                if value.get(name):
                    yield from _shape_violations(f"{path}.{name}".removeprefix("."), value[name], inner)
        case Several() if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            yield from _list_violations(path, value, shape)
        case Each() if isinstance(value, Mapping):
            for key, item in value.items():
                yield from _shape_violations(f"{path}[{key!r}]", item, shape.item)
        case Plain() if shape.holds(value):
            pass
        case _:
            yield f"has {path} that is not {_described(shape)}"


def _list_violations(path: str, items: Sequence[Mapping[str, Any]], shape: Several) -> Iterator[str]:
    if not all(isinstance(item.get(name), str) for item in items for name in shape.named_by):
        yield f"has {path} without {' and '.join(shape.named_by)}"
    for number, item in enumerate(items):
        yield from _shape_violations(f"{path}[{number}]", item, shape.item)


def _described(shape: Any) -> str:
    match shape:
        case Plain():
            return shape.description
        case Several():
            return "a list of mappings"
        case _:
            return "a mapping"


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
    """The parameters of `AdaptiveSparkOperator` that apply on Kubernetes only, rendered.

    Their names are the names in `KubernetesPodOperator`, except the templates and `spot_nodes`.
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
    spot_nodes: Mapping[str, str] | None = None

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
        return self._template("driver_pod_template", self.driver_pod_template, self.spot_nodes or {})

    def executor_template(self) -> str | None:
        """Return the pod template of an executor, likewise."""
        return self._template("executor_pod_template", self.executor_pod_template)

    def violations(
        self, conf: Mapping[str, Any], connection_conf: Mapping[str, str], *, with_image: bool = True
    ) -> Iterator[str]:
        """Yield all violations of a job on Kubernetes. Only pods that are started need an image."""
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
        for name in ("node_selector", "spot_nodes", "labels", "annotations"):
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
        for name in ("node_selector", "spot_nodes", "labels", "annotations"):
            for key, value in (getattr(self, name) or {}).items():
                if not _KEY.fullmatch(str(key)):
                    yield f"{name}: {key!r} is not a valid key of Kubernetes"
                if name == "spot_nodes" and not isinstance(value, str):
                    yield f"spot_nodes[{key!r}] must be text, such as 'true': no label has the value {value!r}"
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

    def _template(
        self, name: str, declared: str | Mapping[str, Any] | None, avoided: Mapping[str, str] | None = None
    ) -> str | None:
        template = read_template(name, declared) if declared is not None else {}
        spec = dict(template.get("spec") or {})
        if self.tolerations:
            spec["tolerations"] = [*(spec.get("tolerations") or []), *_plain(self.tolerations)]
        if self.image_pull_secrets:
            secrets = [{"name": _secret_name(secret)} for secret in _plain(self.image_pull_secrets)]
            spec["imagePullSecrets"] = [*(spec.get("imagePullSecrets") or []), *secrets]
        if self.priority_class_name:
            spec["priorityClassName"] = self.priority_class_name
        if avoided:
            spec["affinity"] = _without_nodes(spec.get("affinity") or {}, avoided)
        if spec:
            template["spec"] = spec
        return json.dumps(template, sort_keys=True, default=str) if template else None


def _without_nodes(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return an affinity that also excludes the nodes that have one of these labels. The terms of an affinity are alternatives."""
    node, required = affinity.get("nodeAffinity") or {}, "requiredDuringSchedulingIgnoredDuringExecution"
    excluded = [{"key": key, "operator": "NotIn", "values": [str(value)]} for key, value in labels.items()]
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *excluded]}
        for term in (node.get(required) or {}).get("nodeSelectorTerms") or [{}]
    ]
    return {**affinity, "nodeAffinity": {**node, required: {"nodeSelectorTerms": terms}}}


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
