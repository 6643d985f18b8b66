"""The control plane of a test cluster: etcd, API server, scheduler and controller manager."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.certificates import ClusterCertificates, KeyPair
from tests.support.kubernetes.host import Network, free_port
from tests.support.kubernetes.processes import ClusterProcess

ADMINISTRATORS: Final = "system:masters"

EVICTION_AFTER_S: Final = 20
"""Pods of a node that is not ready are evicted after this time, unless they have tolerations of their own, or no node is ready."""

NODE_NOT_READY_AFTER_S: Final = 10

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
"""The requests of service accounts, without their content."""

HOST_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Credentials:
    """What a user shows to the API server: a client certificate or a token."""

    certificate: KeyPair | None = None
    token: str | None = None

    def as_kubeconfig(self) -> Mapping[str, str]:
        """Return the entry of a kubeconfig."""
        if self.certificate is not None:
            return {
                "client-certificate": str(self.certificate.certificate),
                "client-key": str(self.certificate.key),
            }
        return {"token": self.token or ""}


class ControlPlane:
    """The servers of a control plane.

    Attributes:
        url: URL of the API server, for this machine and for pods.
        address: address of this machine for pods.
        certificates: creates certificates of other users.
        admin: credentials of a user who may do everything.
        audit_log: file in which the API server records the requests of service accounts, one per line.
        etcd: the storage of the API server.
        api_server: the API server.
        scheduler: binds pods to nodes.
        controller_manager: the controllers, which for example mark nodes as not ready and delete the pods of a deleted namespace.
    """

    def __init__(self, folder: Path, programs: Path, network: Network) -> None:
        self._folder = folder / "control-plane"
        self._folder.mkdir()
        self._programs = programs
        self._network = network
        self.url = f"https://{network.api_server}"
        self.address = network.gateway
        self.certificates = ClusterCertificates(self._folder / "certificates")
        self.admin = Credentials(token=secrets.token_hex(16))
        self.audit_log = self._folder / "audit.log"
        self._etcd_url = f"http://{network.gateway}:{free_port(network.gateway)}"
        self._admin_kubeconfig = self.write_kubeconfig("admin", self.admin)
        self.etcd = self._server("etcd", self._etcd_arguments())
        self.api_server = self._server("kube-apiserver", self._api_server_arguments())
        self.scheduler = self._server("kube-scheduler", self._client_arguments())
        self.controller_manager = self._server("kube-controller-manager", self._controller_arguments())

    def start(self) -> None:
        """Start all servers. Returns when namespaces have their service account, which the controllers create."""
        self.start_etcd()
        self.start_api_server()
        self.start_scheduler()
        self.start_controller_manager()

    def start_etcd(self) -> None:
        """Start etcd, for the first time or after `kill`."""
        self.etcd.start(lambda: _answers(f"{self._etcd_url}/health"))

    def start_api_server(self) -> None:
        """Start the API server, for the first time or after `kill`."""
        self.api_server.start(self._ready)

    def start_scheduler(self) -> None:
        """Start the scheduler, for the first time or after `kill`."""
        self.scheduler.start(lambda: True)

    def start_controller_manager(self) -> None:
        """Start the controllers, for the first time or after `kill`."""
        self.controller_manager.start(self._has_service_account)

    def api(self, credentials: Credentials) -> KubernetesApi:
        """Return a client of the API server."""
        pair = credentials.certificate
        return KubernetesApi(
            self.url,
            ca=self.certificates.ca,
            token=credentials.token,
            certificate=(pair.certificate, pair.key) if pair else None,
        )

    def user(self, name: str, groups: Sequence[str] = ()) -> Credentials:
        """Return the credentials of a user. A user has no permissions until a role is bound to the name or to a group."""
        return Credentials(certificate=self.certificates.user(name, groups))

    def write_kubeconfig(self, name: str, credentials: Credentials, namespace: str = "default") -> Path:
        """Write a kubeconfig with one context, which has the given name. Returns the file."""
        file = self._folder / f"{name.replace(':', '-')}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(self._kubeconfig(name, credentials, namespace), indent=2))
        return file

    def _kubeconfig(self, name: str, credentials: Credentials, namespace: str) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.certificates.ca)}
        context = {"cluster": "test", "user": name, "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": credentials.as_kubeconfig()}],
            "contexts": [{"name": name, "context": context}],
            "current-context": name,
        }

    def _server(self, name: str, arguments: Mapping[str, object]) -> ClusterProcess:
        flags = [f"--{flag}={value}" for flag, value in arguments.items()]
        return ClusterProcess(name, [self._programs / name, *flags], self._folder)

    def _etcd_arguments(self) -> Mapping[str, object]:
        peer = f"http://{self._network.gateway}:{free_port(self._network.gateway)}"
        return {
            "name": "etcd",
            "data-dir": self._folder / "etcd",
            "listen-client-urls": self._etcd_url,
            "advertise-client-urls": self._etcd_url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"etcd={peer}",
            "unsafe-no-fsync": "true",
        }

    def _api_server_arguments(self) -> Mapping[str, object]:
        serving = self.certificates.server("kube-apiserver", [self._network.api_server], HOST_NAMES)
        to_kubelets = self.certificates.user("kube-apiserver", [ADMINISTRATORS])
        tokens = self._folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin.token},admin,admin,"{ADMINISTRATORS}"\n')
        audit_policy = self._folder / "audit-policy.json"
        audit_policy.write_text(json.dumps(AUDIT_POLICY))
        return {
            "etcd-servers": self._etcd_url,
            "bind-address": self._network.api_server,
            "advertise-address": self._network.api_server,
            "secure-port": 443,
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": self._network.services,
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "client-ca-file": self.certificates.ca,
            "token-auth-file": tokens,
            "authorization-mode": "Node,RBAC",
            "audit-policy-file": audit_policy,
            "audit-log-path": self.audit_log,
            "service-account-issuer": f"https://{HOST_NAMES[-1]}",
            "service-account-key-file": self.certificates.service_account_key,
            "service-account-signing-key-file": self.certificates.service_account_key,
            "kubelet-client-certificate": to_kubelets.certificate,
            "kubelet-client-key": to_kubelets.key,
            "kubelet-preferred-address-types": "InternalIP",
            "default-not-ready-toleration-seconds": EVICTION_AFTER_S,
            "default-unreachable-toleration-seconds": EVICTION_AFTER_S,
        }

    def _client_arguments(self) -> Mapping[str, object]:
        """Return the arguments of servers that are clients of the API server and have no server port of their own."""
        return {"kubeconfig": self._admin_kubeconfig, "leader-elect": "false", "secure-port": 0}

    def _controller_arguments(self) -> Mapping[str, object]:
        return {
            **self._client_arguments(),
            "service-account-private-key-file": self.certificates.service_account_key,
            "root-ca-file": self.certificates.ca,
            "flex-volume-plugin-dir": self._folder / "plugins",
            "node-monitor-period": "1s",
            "node-monitor-grace-period": f"{NODE_NOT_READY_AFTER_S}s",
        }

    def _ready(self) -> bool:
        with suppress(httpx.TransportError), self.api(self.admin) as api:
            return api.responds("/readyz")
        return False

    def _has_service_account(self) -> bool:
        with self.api(self.admin) as api:
            return api.responds("/api/v1/namespaces/default/serviceaccounts/default")


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url).is_success
    return False
