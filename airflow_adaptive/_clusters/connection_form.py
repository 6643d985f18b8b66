"""The form of connections of type `adaptive_spark`, as data for the metadata of the provider. Airflow's page displays the form."""

from __future__ import annotations

from typing import Any, Final

from airflow_adaptive._clusters.connection_fields import DEFAULT_TIMEOUT_S, MAX_PORT
from airflow_adaptive._clusters.kubernetes.address import DEFAULT_NAMESPACE
from airflow_adaptive._clusters.standalone.address import DEFAULT_PORT, DEFAULT_REST_PORT, DEFAULT_UI_PORT, SCHEMES

CONNECTION_TYPE: Final = "adaptive_spark"
HOOK_NAME: Final = "Adaptive Spark"

STANDALONE: Final = "Spark standalone"
KUBERNETES: Final = "Kubernetes"
BOTH: Final = "All clusters"

LINES: Final = "One line name=value for each. Airflow masks the text after you save the connection."
"""Airflow's editor of JSON objects moves the cursor while a user types, and masks values by their names only."""


def connection_type() -> dict[str, Any]:
    """Return the entry of `connection-types` in the metadata of the provider."""
    return {
        "connection-type": CONNECTION_TYPE,
        "hook-class-name": "airflow_adaptive.hooks.adaptive_spark.AdaptiveSparkHook",
        "hook-name": HOOK_NAME,
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login"],
            "relabeling": {"host": "Masters or API server", "password": "Token", "port": "Port"},
            "placeholders": {
                "host": "spark://master, spark://master-1:7077,master-2:7077 or k8s://https://api:6443",
                "port": f"{DEFAULT_PORT} for Spark standalone",
                "password": "bearer token, if the masters require one",
            },
        },
        "conn-fields": {**_both(), **_standalone(), **_kubernetes()},
    }


def _both() -> dict[str, Any]:
    return {
        "timeout": _field(
            BOTH,
            "Timeout",
            f"Timeout of a request in seconds. Default: {DEFAULT_TIMEOUT_S:g}.",
            type=["number", "null"],
            exclusiveMinimum=0,
        ),
        "secret-conf": _field(
            BOTH, "Secret Spark properties", f"Properties of every driver. {LINES}", format="multiline"
        ),
        "secret-env": _field(
            BOTH, "Secret driver environment", f"Environment variables of every driver. {LINES}", format="multiline"
        ),
    }


def _standalone() -> dict[str, Any]:
    return {
        "ui-port": _port("Port of the web UI", DEFAULT_UI_PORT),
        "ui-scheme": _scheme("Scheme of the web UI"),
        "rest-port": _port("Port of the REST submission server", DEFAULT_REST_PORT),
        "rest-scheme": _scheme("Scheme of the REST submission server"),
        "verify": _field(
            STANDALONE,
            "Certificate authorities",
            "Path of a file with certificate authorities on the workers and the triggerer, or 'false' to accept any certificate.",
        ),
        "token-hosts": _field(
            STANDALONE, "Other hosts that receive the token", "For example: worker-1,*.spark.example.com"
        ),
    }


def _kubernetes() -> dict[str, Any]:
    return {
        "namespace": _field(KUBERNETES, "Namespace", f"Default: {DEFAULT_NAMESPACE}."),
        "max-cores": _field(
            KUBERNETES,
            "Maximum CPU cores",
            "Cap of the requests of all drivers and executors in the namespace.",
            type=["number", "null"],
            exclusiveMinimum=0,
        ),
        "max-memory": _field(
            KUBERNETES, "Maximum memory", "Cap of the requests of all drivers and executors in the namespace, as 100g."
        ),
        "node-autoscaling": _field(
            KUBERNETES,
            "Node autoscaling",
            "Whether the cluster adds nodes for pods that do not fit.",
            type=["boolean", "null"],
        ),
        "log-url": _field(
            KUBERNETES,
            "Address of logs",
            "Log of a pod on the pages of a log collector, as https://logs.example.com/{namespace}/{pod}.",
        ),
    }


def _port(label: str, default: int) -> dict[str, Any]:
    return _field(STANDALONE, label, f"Default: {default}.", type=["integer", "null"], minimum=1, maximum=MAX_PORT)


def _scheme(label: str) -> dict[str, Any]:
    return _field(STANDALONE, label, f"Default: {SCHEMES[0]}.", enum=[*SCHEMES])


def _field(section: str, label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": ["string", "null"], "section": section, **schema},
    }
