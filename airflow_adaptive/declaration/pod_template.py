"""Pod templates of drivers and executors: reads them from files, and validates them before they reach a cluster.

The API server validates the complete pod. The checks here find errors that Kubernetes would report late or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from airflow_adaptive.ports import is_secret

KIND = {"apiVersion": "v1", "kind": "Pod"}

FIELDS = ("apiVersion", "kind", "metadata", "spec")

RESTART_POLICY = "Never"
"""The scheduler starts each driver, and Spark starts each executor. A container that the kubelet starts again would be a second driver."""

RESTARTS = ("restartPolicy", "restartPolicyRules")
"""Fields with which the kubelet restarts a single container."""

LISTS_OF_OBJECTS = ("containers", "initContainers", "volumes", "tolerations", "imagePullSecrets")


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
    for field, value in KIND.items():
        if template.get(field, value) != value:
            yield f"has {field} {template[field]!r}: use {value!r}"
    unknown = [str(field) for field in template if field not in FIELDS]
    if unknown:
        yield f"has unknown fields {', '.join(unknown)}: a pod template has the fields {', '.join(FIELDS)}"
    for field in ("metadata", "spec"):
        if not isinstance(template.get(field) or {}, Mapping):
            yield f"has a {field} that is not a mapping"
    spec = template.get("spec")
    if isinstance(spec, Mapping):
        yield from _violations_of_spec(spec)


def _violations_of_spec(spec: Mapping[str, Any]) -> Iterator[str]:
    policy = spec.get("restartPolicy", RESTART_POLICY)
    if policy != RESTART_POLICY:
        yield f"has spec.restartPolicy {policy!r}: use {RESTART_POLICY!r}, because the scheduler restarts the driver"
    for field in LISTS_OF_OBJECTS:
        items = spec.get(field) or []
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            yield f"has spec.{field} that is not a list of mappings"
        elif field.lower().endswith("containers") and not all(isinstance(item.get("name"), str) for item in items):
            yield f"has spec.{field} without a name"
        elif field == "containers" and any({*RESTARTS} & {*item} for item in items):
            yield f"has {' or '.join(RESTARTS)} in spec.containers: remove it, because the scheduler restarts the driver"
