"""What a cluster changes on the machine outside its folder: a bridge, cgroups and kernel settings.

The name of the folder is also the name of the bridge and of the cgroups, so that `clean_up` finds them after a crash.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from tests.support.kubernetes.requirements import SYSTEM_PATH

PREFIX: Final = "adaptive-"

SYSCTLS: Final = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)  # fmt: skip
"""Kernel settings that a kubelet changes when it starts."""

CONTAINERS: Final = "state/io.containerd.runtime.v2.task/k8s.io"
"""Where the container runtime of a node keeps a folder for each container, in the folder of the node."""

POD_NETWORK: Final = "10.213.{}.0/24"
SERVICE_NETWORK: Final = "10.214.{}.0/24"

CPU_SHARE: Final = {"cpu.shares": "8192", "cpu.weight": "800"}
"""Eight times the default, in cgroup v1 and v2."""

SAVED_SYSCTLS: Final = "sysctls.json"

FIRST_NODE: Final = 10
FIRST_POD: Final = 32
PODS_PER_NODE: Final = 96


@dataclass(frozen=True)
class Network:
    """The bridge of a cluster, to which all pods are connected.

    Nothing forwards packets, so pods reach each other, the nodes and the API server only.
    """

    bridge: str
    pods: ipaddress.IPv4Network
    services: ipaddress.IPv4Network

    @property
    def gateway(self) -> str:
        """The address of the machine on the bridge."""
        return str(self.pods[1])

    @property
    def api_server(self) -> str:
        """The address of the service `kubernetes`. The API server itself has this address, because there is no kube-proxy."""
        return str(self.services[1])

    def node(self, index: int) -> str:
        """Return the address of a node."""
        return str(self.pods[FIRST_NODE + index])

    def pod_range(self, index: int) -> tuple[str, str]:
        """Return the first and the last address of the pods of a node."""
        first = FIRST_POD + index * PODS_PER_NODE
        return str(self.pods[first]), str(self.pods[first + PODS_PER_NODE - 1])


def create_folder() -> Path:
    """Create the folder of a cluster. Its name is short, because paths of sockets and names of bridges are."""
    folder = Path(gettempdir()).resolve() / f"{PREFIX}{secrets.token_hex(3)}"
    folder.mkdir(mode=0o755)
    return folder


def create_network(folder: Path, nodes: int) -> Network:
    """Create the bridge with the addresses of the API server and of the nodes."""
    pods, services = _unused_networks()
    network = Network(folder.name, pods, services)
    # Without an address of its own, a bridge has that of a pod, and its other pods lose their gateway for half a minute when that pod ends.
    ip("link", "add", network.bridge, "address", "02:00:00:00:00:01", "type", "bridge")
    for address in (network.gateway, *(network.node(index) for index in range(nodes))):
        ip("address", "add", f"{address}/{pods.prefixlen}", "dev", network.bridge)
    ip("address", "add", f"{network.api_server}/32", "dev", network.bridge)
    ip("link", "set", network.bridge, "up")
    return network


def free_port(address: str) -> int:
    """Return a TCP port of an address on which no process listens."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def ip(*arguments: str) -> str:
    """Run the program `ip` and return its output."""
    environment = {**os.environ, "PATH": SYSTEM_PATH}
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, env=environment).stdout


def create_cgroups(name: str) -> None:
    """Create the cgroup in each hierarchy. The kubelet expects it."""
    for hierarchy in _hierarchies():
        folder = hierarchy
        for part in Path(name).parts:
            folder /= part
            folder.mkdir(exist_ok=True)
            _copy_cpuset(folder)
            _set_cpu_share(folder)


def cgroups_of(name: str) -> list[Path]:
    """Return the cgroups of a cluster or a node and all cgroups inside, inner cgroups first."""
    roots = (hierarchy / name for hierarchy in _hierarchies())
    return [Path(path) for root in roots for path, _, _ in os.walk(root, topdown=False)]


def processes_in_cgroups(name: str) -> set[int]:
    """Return the ids of the processes of all containers of a cluster, a node or a pod, by its cgroup."""
    found: set[int] = set()
    for cgroup in cgroups_of(name):
        with suppress(OSError):
            found.update(map(int, (cgroup / "cgroup.procs").read_text().split()))
    return found - {0}


def shim_sockets(node: Path) -> set[Path]:
    """Return the sockets of the processes that hold the containers of a node. A shim that was killed leaves its socket."""
    addresses = node.glob(f"{CONTAINERS}/*/address")
    sockets = {Path(address.read_text().removeprefix("unix://")) for address in addresses}
    return {socket for socket in sockets if socket.exists()}


def save_sysctls(folder: Path) -> None:
    """Write the kernel settings that a kubelet changes into the folder."""
    files = [Path("/proc/sys", name) for name in SYSCTLS]
    (folder / SAVED_SYSCTLS).write_text(json.dumps({str(file): file.read_text() for file in files if file.exists()}))


def restore_sysctls(folder: Path) -> None:
    """Undo the changes of the kubelets."""
    with suppress(FileNotFoundError):
        for file, value in json.loads((folder / SAVED_SYSCTLS).read_text()).items():
            Path(file).write_text(value)


def _hierarchies() -> list[Path]:
    """Return where the machine mounts cgroups. A machine with cgroup v1 can have a hierarchy of cgroup v2 too, which runc also uses."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [Path(folder) for _, folder, kind, *_ in mounts if kind in {"cgroup", "cgroup2"}]


def _copy_cpuset(folder: Path) -> None:
    """Give a cgroup the processors of its parent. In cgroup v1 a new one has none, and no process can enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        with suppress(FileNotFoundError):
            if not (folder / name).read_text().strip():
                (folder / name).write_text((folder.parent / name).read_text())


def _set_cpu_share(folder: Path) -> None:
    """Let the containers of a node compete with other processes as several processes, and not as one process."""
    for name, value in CPU_SHARE.items():
        if (folder / name).exists():
            (folder / name).write_text(value)


def _unused_networks() -> tuple[ipaddress.IPv4Network, ipaddress.IPv4Network]:
    """Return networks that no interface of the machine has."""
    routes = [route["dst"] for route in json.loads(ip("-json", "-4", "route", "show", "table", "all"))]
    used = [ipaddress.IPv4Network(route, strict=False) for route in routes if route != "default"]
    for number in range(256):
        pair = ipaddress.IPv4Network(POD_NETWORK.format(number)), ipaddress.IPv4Network(SERVICE_NETWORK.format(number))
        if not any(network.overlaps(other) for network in pair for other in used):
            return pair
    raise RuntimeError("every network of the test clusters is in use")
