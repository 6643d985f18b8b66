"""Addresses of Kubernetes clusters, their representation in an Airflow connection, and the source of API clients with credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from airflow_adaptive._clusters.connection_fields import (
    DEFAULT_TIMEOUT_S,
    EXECUTOR_ENVIRONMENT,
    EXECUTOR_OPTIONS,
    AddressError,
    given_fields,
    read_conf,
    read_port,
    read_secret_conf,
    read_texts,
    read_timeout,
)
from airflow_adaptive._clusters.properties import secret_values
from airflow_adaptive._core.ports import ClusterUnreachableError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

SCHEME: Final = "k8s"
PREFIX: Final = f"{SCHEME}://"

DEFAULT_NAMESPACE: Final = "default"

DEFAULT_PORTS: Final = {"https": 443, "http": 80}

IN_CLUSTER_HOST: Final = "kubernetes.default.svc"
"""Name of the API server inside each cluster. In a connection, it stands for the cluster of the credentials."""

READABLE: Final = (*EXECUTOR_OPTIONS, EXECUTOR_ENVIRONMENT)
"""Properties that Spark writes to the specifications of executor pods."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_MEMORY: Final = re.compile(r"(\d+)\s*(m|g|t)b?", re.IGNORECASE)
_BYTES: Final = {"m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAddress:
    """A namespace of a Kubernetes cluster, and the options of its connection.

    Attributes:
        server: URL of the API server, for example `https://api:6443`.
        namespace: namespace of the drivers and executors.
        max_cpu_millicores: static cap of the CPU requests of all drivers and executors in the namespace, None without one.
        max_memory_bytes: static cap of their memory requests, None without one.
        has_node_autoscaling: whether the cluster adds nodes for pods that do not fit.
        log_url: address of the log of a pod on the pages of a log collector, with `{namespace}` and `{pod}`; "" without one.
        timeout_s: maximum time for a connection to the API server, and for its response, in seconds.
        conf: Spark properties of every driver; the place for secret ones.
        secret_names: names in `conf` whose values are secret whatever their names.
        secret_env: secret environment variables of every driver.
    """

    server: str
    namespace: str = DEFAULT_NAMESPACE
    max_cpu_millicores: int | None = None
    max_memory_bytes: int | None = None
    has_node_autoscaling: bool = False
    log_url: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: frozenset[str] = frozenset()
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def master_url(self) -> str:
        """`k8s://https://host:port`, the master of an application."""
        return f"{PREFIX}{self.server}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in any output."""
        return tuple(secret_values(self.conf, self.secret_names, self.secret_env))

    @property
    def capacity_key(self) -> tuple[object, ...]:
        """What determines the capacity of the namespace, for an account: connections with other limits have another capacity."""
        return *self.place, self.max_cpu_millicores, self.max_memory_bytes, self.has_node_autoscaling, self.log_url

    @property
    def place(self) -> tuple[str, str]:
        """The API server and the namespace: two addresses with the same place lead to the same namespace."""
        return self.server, self.namespace

    def log_page(self, pod: str) -> str:
        """Return the address of the log of a pod, "" without a log collector."""
        return self.log_url.replace("{namespace}", self.namespace).replace("{pod}", pod)

    def names_server(self, server: str) -> bool:
        """Return whether the URL of an API server may be the server of this address."""
        parts, own = urlsplit(server), urlsplit(self.server)
        if own.hostname == IN_CLUSTER_HOST:
            return True
        return (parts.scheme, parts.hostname, _port_of(server)) == (own.scheme, own.hostname, _port_of(self.server))


def parse_kubernetes_address(host: str, port: int | None, extra: Mapping[str, Any]) -> KubernetesAddress:
    """Read the fields of an Airflow connection whose host begins with `k8s://`.

    Args:
        host: `k8s://https://api:6443`, or `k8s://api` with the port in `port`; https is the default, as in Spark.
        port: port of the API server, if `host` has none.
        extra: `namespace`, `max-cores` (CPU cores), `max-memory` ("100g"), `node-autoscaling` (true or false), `log-url`, `timeout` (seconds), `conf`
            and `secret-conf` (Spark properties), `secret-env` (environment variables). Fields without a value and other fields are ignored.

    Raises:
        AddressError: the fields do not describe a Kubernetes cluster.
    """
    extra = given_fields(extra)
    return KubernetesAddress(
        server=_server(host, port),
        namespace=read_namespace(extra.get("namespace", DEFAULT_NAMESPACE)),
        max_cpu_millicores=_millicores(extra.get("max-cores")),
        max_memory_bytes=_bytes(extra.get("max-memory")),
        has_node_autoscaling=_flag("node-autoscaling", extra.get("node-autoscaling", False)),
        log_url=_log_url(extra.get("log-url", "")),
        timeout_s=read_timeout(extra.get("timeout", DEFAULT_TIMEOUT_S)),
        conf=read_conf(extra, READABLE),
        secret_names=frozenset(read_secret_conf(extra)),
        secret_env=read_texts("secret-env", extra.get("secret-env", {})),
    )


def read_namespace(value: object) -> str:
    """Return the name of a namespace. Raises `AddressError`."""
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise AddressError(
            f"namespace {value!r} is not the name of a namespace: use at most 63 lower-case letters, digits and hyphens"
        )
    return value


def _server(host: str, port: int | None) -> str:
    url = host.strip().removeprefix(PREFIX)
    url = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(url)
        own_port = parts.port
    except ValueError:
        parts, own_port = urlsplit(""), None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None or parts.query:
        raise AddressError(
            "host is not the URL of an API server: use k8s://https://host:port"
        )  # It may contain a password.
    if own_port is None and port is not None:
        parts = parts._replace(netloc=f"{parts.netloc}:{read_port('port', port)}")
    return parts._replace(path=parts.path.rstrip("/")).geturl()


def _port_of(server: str) -> int | None:
    parts = urlsplit(server)
    return parts.port or DEFAULT_PORTS.get(parts.scheme)


def _flag(name: str, value: object) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise AddressError(f"{name} {value!r} is not true or false")
    return str(value).lower() == "true"


def _log_url(value: object) -> str:
    url = str(value).strip()
    if url and (not url.startswith(("http://", "https://")) or "{pod}" not in url):
        raise AddressError(
            f"log-url {url!r} is not the address of the log of a pod: use, for example, 'https://logs.example.com/{{namespace}}/{{pod}}'"
        )
    return url


def _millicores(value: object) -> int | None:
    if value is None:
        return None
    try:
        cores = float(str(value))
    except ValueError:
        cores = 0.0
    if not 0.0 < cores * 1000 < float("inf"):
        raise AddressError(f"max-cores {value!r} is not a number of cores above 0")
    return round(cores * 1000)


def _bytes(value: object) -> int | None:
    if value is None:
        return None
    matched = _MEMORY.fullmatch(str(value).strip())
    if matched is None or int(matched[1]) == 0:
        raise AddressError(f"max-memory {value!r} is not a memory size: use, for example, '512m' or '100g'")
    return int(matched[1]) * _BYTES[matched[2].lower()]


class CredentialsError(ClusterUnreachableError):
    """The connection contains no credentials that can be loaded, or the credentials of another cluster."""


class ApiSource(Protocol):
    """Gives an API client with valid credentials.

    A client that the source has replaced stays open for the requests that use it; the source closes it with a later replacement, or in
    `close`. A request of a closed client fails as a request to a server that does not answer.
    """

    async def client(self) -> ApiClient:
        """Return the current client. The source replaces a client before its credentials expire.

        Raises `CredentialsError`, or `ClusterUnreachableError` if the connection cannot be read now.
        """

    async def renew(self, refused: ApiClient) -> bool:
        """Load the credentials again, because the API server refused a client with 401; return whether there is another client now.

        Loops that share the source load the credentials once, and not more often than every 30 seconds.
        """

    def explain_refusal(self) -> str:
        """Return why the API server may refuse the current credentials, and the remedy."""

    async def close(self) -> None:
        """Close all clients."""
