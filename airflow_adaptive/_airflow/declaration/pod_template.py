"""Pod templates of drivers and executors: reads them from files, and validates them before they reach a cluster.

The API server validates the complete pod. The checks here find errors that Kubernetes would report late or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """A value without fields.

    Attributes:
        description: what the value must be.
        holds: whether a value is valid.
    """

    description: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Several:
    """A list of mappings.

    Attributes:
        item: shape of each mapping.
        named_by: fields with text that each mapping must have.
    """

    item: Mapping[str, Any] = field(default_factory=dict)
    named_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Each:
    """A mapping whose keys the user chooses.

    Attributes:
        item: shape of each value.
    """

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
    """A pod template is not valid.

    Attributes:
        violations: all violations.
    """

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


def read_template(name: str, template: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid pod template.

    Args:
        name: name of the parameter, for messages.
        template: the template, or the path of a YAML file with one template. The path must be readable by Airflow.

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
