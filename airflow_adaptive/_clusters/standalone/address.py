"""Addresses of standalone masters, and their representation in an Airflow connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import urlsplit

from airflow_adaptive._clusters.connection_fields import (
    DEFAULT_TIMEOUT_S,
    DRIVER_OPTIONS,
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

SCHEME = "spark"
SCHEMES = ("http", "https")

DEFAULT_PORT = 7077
DEFAULT_UI_PORT = 8080
DEFAULT_REST_PORT = 6066

READABLE = (*DRIVER_OPTIONS, *EXECUTOR_OPTIONS)
"""Properties that are on the command lines of drivers and executors, which the web UIs of the workers show."""

OTHER_MANAGERS = ("local", "yarn", "k8s", "mesos")
"""Masters that Airflow's `spark` connections may name and that are not standalone clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterAddress:
    """Addresses of one master.

    Attributes:
        host: host name or IP address.
        port: port for applications and workers.
        ui_port: port of the web UI.
        rest_port: port of the REST submission server (`spark.master.rest.port`).
        ui_scheme: "http" or "https".
        rest_scheme: "http" or "https".
    """

    host: str
    port: int = DEFAULT_PORT
    ui_port: int = DEFAULT_UI_PORT
    rest_port: int = DEFAULT_REST_PORT
    ui_scheme: str = "http"
    rest_scheme: str = "http"

    @property
    def location(self) -> str:
        """`host:port`, as in Spark's list of masters."""
        return f"{self._host_in_url}:{self.port}"

    @property
    def ui_url(self) -> str:
        """URL of the web UI."""
        return f"{self.ui_scheme}://{self._host_in_url}:{self.ui_port}"

    @property
    def rest_url(self) -> str:
        """URL of the REST submission server."""
        return f"{self.rest_scheme}://{self._host_in_url}:{self.rest_port}"

    @property
    def _host_in_url(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """Addresses of a standalone cluster, and the options of its connections.

    Attributes:
        masters: the leader and the standby masters, in any order.
        token: bearer token for masters that require one (`org.apache.spark.ui.JWSFilter`), or None.
        timeout_s: maximum time for a connection to a master, and for its response, in seconds.
        verify: whether to check https certificates, or the file of the certificate authorities.
        conf: Spark properties of every driver on the cluster; the place for secret ones.
        secret_names: names in `conf` whose values are secret whatever their names.
        secret_env: secret environment variables of every driver on the cluster.
        token_hosts: hosts that receive the token beside the masters; `*` matches any part of a name.
        conn_id: id of the Airflow connection, for messages; "" without one.
    """

    masters: tuple[MasterAddress, ...]
    token: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    verify: bool | str = True
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: frozenset[str] = frozenset()
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_hosts: tuple[str, ...] = ()
    conn_id: str = field(default="", compare=False)

    @property
    def master_url(self) -> str:
        """`spark://host:port,...`, the master of an application."""
        return f"{SCHEME}://{','.join(master.location for master in self.masters)}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in any output."""
        return (*([self.token] if self.token else []), *secret_values(self.conf, self.secret_names, self.secret_env))

    @property
    def capacity_key(self) -> frozenset[MasterAddress]:
        """What determines the capacity of the cluster."""
        return self.place

    @property
    def place(self) -> frozenset[MasterAddress]:
        """The masters in any order: two addresses with the same place lead to the same cluster."""
        return frozenset(self.masters)

    def tls(self) -> ssl.SSLContext | bool:
        """Return the `verify` argument of httpx. Raises `AddressError` for a name that no file can have, and `OSError`."""
        if not isinstance(self.verify, str):
            return self.verify
        try:
            return ssl.create_default_context(cafile=self.verify)
        except ValueError as error:
            raise AddressError(f"verify {self.verify!r} is not the path of a file of authorities ({error})") from error


def parse_address(host: str | None, port: int | None, password: str | None, extra: Mapping[str, Any]) -> ClusterAddress:
    """Read the fields of an Airflow connection.

    Args:
        host: `spark://h1`, `spark://h1:7077,h2:7077`, or the same without `spark://`.
        port: port of masters without a port in `host`.
        password: bearer token, if the masters require one.
        extra: `ui-port`, `rest-port`, `ui-scheme`, `rest-scheme`, `timeout` (seconds), `verify` (true, false, or a file
            of certificate authorities), `conf` and `secret-conf` (Spark properties), `secret-env` (environment variables),
            `token-hosts` (host names). Fields without a value and other fields are ignored.

    Raises:
        AddressError: the fields do not describe a standalone cluster.
    """
    extra = given_fields(extra)
    return ClusterAddress(
        masters=tuple(_master(location, port, extra) for location in _locations(host or "")),
        token=password or None,
        timeout_s=read_timeout(extra.get("timeout", DEFAULT_TIMEOUT_S)),
        verify=_verify(extra.get("verify", True)),
        conf=read_conf(extra, READABLE),
        secret_names=frozenset(read_secret_conf(extra)),
        secret_env=read_texts("secret-env", extra.get("secret-env", {})),
        token_hosts=_hosts(extra.get("token-hosts", ())),
    )


def _locations(host: str) -> list[str]:
    scheme, separator, rest = host.strip().partition("://")
    if not separator:
        scheme, rest = SCHEME, scheme
    if (scheme if separator else rest.partition("[")[0]) in OTHER_MANAGERS:
        raise AddressError(
            f"host {host!r} is not supported: use spark://host:port for a standalone cluster, or k8s://https://host:port for Kubernetes"
        )
    locations = [location.strip() for location in rest.split(",") if location.strip()]
    if scheme != SCHEME or not locations:
        raise AddressError(f"host {host!r} names no master: use spark://host:port, or spark://h1:port,h2:port")
    return locations


def _master(location: str, port: int | None, extra: Mapping[str, Any]) -> MasterAddress:
    host, own_port = _host_and_port(location)
    return MasterAddress(
        host=host,
        port=read_port("port", own_port or port or DEFAULT_PORT),
        ui_port=read_port("ui-port", extra.get("ui-port", DEFAULT_UI_PORT)),
        rest_port=read_port("rest-port", extra.get("rest-port", DEFAULT_REST_PORT)),
        ui_scheme=_scheme("ui-scheme", extra.get("ui-scheme", "http")),
        rest_scheme=_scheme("rest-scheme", extra.get("rest-scheme", "http")),
    )


def _host_and_port(location: str) -> tuple[str, int | None]:
    if _is_ipv6(location):  # Airflow removes the brackets from the host of a URI.
        return location, None
    try:
        parts = urlsplit(f"//{location}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"{location!r} is not host:port ({error})") from error
    if not host or parts.path or parts.query or parts.fragment or parts.username is not None:
        raise AddressError(f"host has something beside host:port in {location.rpartition('@')[2]!r}")
    return host, port


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _scheme(name: str, value: object) -> str:
    if value not in SCHEMES:
        raise AddressError(f"{name} {value!r} must be one of {', '.join(SCHEMES)}")
    return str(value)


def _verify(value: object) -> bool | str:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    if isinstance(value, bool):
        return value
    raise AddressError(f"verify {value!r} must be true, false or the path of a file of authorities")


def _hosts(hosts: object) -> tuple[str, ...]:
    names = hosts.split(",") if isinstance(hosts, str) else hosts
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and "/" not in name for name in names):
        raise AddressError(f"token-hosts {hosts!r} must be host names, for example worker-1,*.spark.example.com")
    return tuple(name.strip().lower() for name in names if name.strip())
