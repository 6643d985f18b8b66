"""The check of a declaration for Spark properties that the operator, the scheduler or the client of the cluster manager determines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_adaptive._core.protocol.conf import PREFIX as OWN_PREFIX
from airflow_adaptive._core.protocol.reserved import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    MANAGED_PARAMETERS,
    PARAMETERS,
    STREAMING_PARAMETERS,
    SUPERVISE,
)


def refused(conf: Mapping[str, Any], *, streaming: bool, managed: bool) -> Iterator[str]:
    """Yield a violation for each property without effect on any cluster manager. Its text begins with the name of the property.

    Args:
        conf: Spark properties.
        streaming: whether the adaptive scheduler runs the job.
        managed: whether the script calls `AdaptiveJob`, so that the runtime determines more properties.
    """
    parameters = PARAMETERS | (STREAMING_PARAMETERS if streaming else {})
    parameters |= MANAGED_PARAMETERS if streaming and managed else {}
    for name, value in conf.items():
        if name in parameters:
            yield _use(name, parameters[name])
        elif name.startswith(OWN_PREFIX):
            yield f"{name!r}] is reserved for the runtime: leave it out"
        elif name == SUPERVISE and str(value).lower() != "false":
            yield f"{name!r}] must be off, because the scheduler restarts the driver"


def refused_on_kubernetes(conf: Mapping[str, Any]) -> Iterator[str]:
    """Yield a violation for each property without effect on Kubernetes."""
    for name in map(str, conf):
        prefixes = (parameter for prefix, parameter in KUBERNETES_PREFIXES.items() if name.startswith(prefix))
        parameter = KUBERNETES_PARAMETERS.get(name) or next(prefixes, None)
        if parameter is not None:
            yield _use(name, parameter)
        elif name in KUBERNETES_DETERMINED:
            yield f"{name!r}] is determined by airflow-adaptive: leave it out"


def _use(name: str, parameter: str) -> str:
    return f"{name!r}] would have no effect: use the parameter {parameter!r} of the operator"
