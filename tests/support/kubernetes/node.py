"""A node of a test cluster: a kubelet with a container runtime of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.control_plane import ControlPlane, Credentials
from tests.support.kubernetes.host import Network, create_cgroups, free_port, processes_in_cgroups, shim_sockets
from tests.support.kubernetes.images import PAUSE, shared_folders
from tests.support.kubernetes.processes import START_TIMEOUT_S, ClusterProcess, kill_all, processes_of
from tests.support.kubernetes.requirements import CNI_PLUGINS, SYSTEM_PATH

MIB: Final = 1024 * 1024

LEASE_DURATION_S: Final = 8

QUALITIES: Final = ("", "burstable/", "besteffort/")
"""Folders of the cgroups of pods by the quality of service."""

CONTAINERD_CONFIGURATION: Final = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"

[plugins."io.containerd.grpc.v1.cri"]
disable_apparmor = true
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
sandbox_image = "{pause}"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni_plugins}"
conf_dir = "{folder}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{folder}/container.json"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{folder}/runc"
"""


@dataclass(frozen=True)
class NodePlace:
    """Where a node is: its folder, its address and its cgroup.

    Attributes:
        index: number of the node in its cluster, from 0.
        folder: folder of the node. Its parent is the folder of the cluster.
        network: network of the cluster.
    """

    index: int
    folder: Path
    network: Network

    @property
    def name(self) -> str:
        """The name of the node in the cluster."""
        return self.folder.name

    @property
    def cgroup(self) -> str:
        """The cgroup that contains the pods of the node."""
        return f"{self.folder.parent.name}/{self.name}"

    @property
    def address(self) -> str:
        """The address on which the kubelet listens."""
        return self.network.node(self.index)

    @property
    def socket(self) -> Path:
        """The socket of the container runtime."""
        return self.folder / "containerd.sock"


class Node:
    """A node whose parts can be frozen and killed.

    Attributes:
        name: the name of the node in the cluster.
        kubelet: the agent of the cluster on the node. Containers run on without it.
        container_runtime: starts and observes the containers. Containers also run on without it.
    """

    def __init__(
        self, place: NodePlace, control_plane: ControlPlane, programs: Path, images: Iterable[Path], *, memory_mib: int
    ) -> None:
        self.name = place.name
        self._place = place
        self._control_plane = control_plane
        self._images = images
        self._memory_mib = memory_mib
        folder = place.folder
        folder.mkdir()
        runtime: Sequence[str | Path] = ["containerd", "--config", folder / "containerd.toml"]
        self.container_runtime = ClusterProcess("containerd", runtime, folder)
        self.kubelet = ClusterProcess("kubelet", [programs / "kubelet", *self._kubelet_flags()], folder)

    def start(self) -> None:
        """Start the node, for the first time or after `lose`, and wait until it is ready."""
        create_cgroups(self._place.cgroup)
        self._write_configuration()
        self.container_runtime.start(lambda: self._control_runtime("version").returncode == 0)
        for image in self._images:
            self.import_image(image)
        self.start_kubelet()

    def import_image(self, archive: Path) -> None:
        """Let pods on the node use the image of an archive."""
        self._control_runtime("--namespace", "k8s.io", "images", "import", str(archive)).check_returncode()

    def push_image(self, image: str, target: str, user: str) -> None:
        """Push an image of the node to a registry without TLS, as the user `name:password`."""
        push = ("images", "push", "--plain-http", "--user", user, target, image)
        self._control_runtime("--namespace", "k8s.io", *push).check_returncode()

    def start_kubelet(self) -> None:
        """Start the kubelet, for the first time or after `kill`, and wait until the node is ready."""
        with self._control_plane.api(self._control_plane.admin) as api:
            self.kubelet.start(lambda: is_ready(api.find(f"/api/v1/nodes/{self.name}") or {}))

    def lose(self) -> None:
        """Kill everything on the node at once, as a power failure does. `start` starts the node again."""
        wait_until(self._killed, START_TIMEOUT_S, f"end of {self.name}")
        for socket in shim_sockets(self._place.folder):
            socket.unlink()

    def kill_pod(self, uid: str) -> None:
        """Kill all processes of the containers of a pod, but not the process that holds the namespaces of the pod."""
        groups = [f"{self._place.cgroup}/kubepods/{quality}pod{uid}" for quality in QUALITIES]
        pids = {pid for group in groups for pid in processes_in_cgroups(group)}
        for pid in pids:
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process = psutil.Process(pid)
                if process.name() != "pause":
                    kill_all([process])

    def processes(self) -> set[int]:
        """Return the ids of the processes of all containers on the node."""
        return processes_in_cgroups(self._place.cgroup)

    def _killed(self) -> bool:
        contained = [psutil.Process(pid) for pid in self.processes() if psutil.pid_exists(pid)]
        found = processes_of(self._place.folder) + contained
        kill_all(found)
        return not found

    def _control_runtime(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = ["ctr", "--address", str(self._place.socket), *arguments]
        return subprocess.run(command, check=False, capture_output=True, env={**os.environ, "PATH": SYSTEM_PATH})

    def _write_configuration(self) -> None:
        folder = self._place.folder
        (folder / "cni").mkdir(exist_ok=True)
        (folder / "cni" / "bridge.conflist").write_text(json.dumps(self._cni()))
        (folder / "kubelet.json").write_text(json.dumps(self._kubelet()))
        (folder / "container.json").write_text(json.dumps(_container_specification()))
        (folder / "containerd.toml").write_text(
            CONTAINERD_CONFIGURATION.format(
                folder=folder, socket=self._place.socket, pause=PAUSE, cni_plugins=CNI_PLUGINS
            )
        )

    def _cni(self) -> Mapping[str, Any]:
        network = self._place.network
        first, last = network.pod_range(self._place.index)
        addresses = {"subnet": str(network.pods), "rangeStart": first, "rangeEnd": last, "gateway": network.gateway}
        ipam = {
            "type": "host-local",
            "ranges": [[addresses]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(self._place.folder / "addresses"),
        }
        bridge = {"type": "bridge", "bridge": network.bridge, "isGateway": False, "ipam": ipam}
        return {"cniVersion": "0.4.0", "name": f"{network.bridge}-{self.name}", "plugins": [bridge]}

    def _kubelet_flags(self) -> list[str]:
        folder = self._place.folder
        name = f"system:node:{self.name}"
        certificate = self._control_plane.certificates.user(name, ["system:nodes"])
        kubeconfig = self._control_plane.write_kubeconfig(name, Credentials(certificate=certificate))
        return [
            f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'certificates'}",
            f"--node-ip={self._place.address}",
            f"--hostname-override={self.name}",
        ]

    def _kubelet(self) -> Mapping[str, Any]:
        reserved = psutil.virtual_memory().total // MIB - self._memory_mib
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._place.address,
            "port": free_port(self._place.address),
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._control_plane.certificates.ca)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self._place.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._place.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "systemReserved": {"memory": f"{max(reserved, 0)}Mi"},
            "evictionHard": {"memory.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "podLogsDir": str(self._place.folder / "logs"),
            "volumePluginDir": str(self._place.folder / "plugins"),
            "nodeStatusUpdateFrequency": "4s",
            "nodeLeaseDurationSeconds": LEASE_DURATION_S,
        }


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether the object of a node reports the condition Ready."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _container_specification() -> Mapping[str, Any]:
    """Return what containerd starts each container from: its own default, and the folders of this machine."""
    command = ["ctr", "oci", "spec"]
    environment = {**os.environ, "PATH": SYSTEM_PATH}
    default: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    )
    options = ["rbind", "ro", "rprivate"]
    default["mounts"] += [
        {"destination": str(folder), "source": str(folder), "type": "bind", "options": options}
        for folder in shared_folders()
    ]
    return default
