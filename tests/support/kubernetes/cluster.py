"""A real Kubernetes cluster on this machine, of which nothing remains after its end, not even after a crash of its owner.

`python -m tests.support.kubernetes.cluster` starts a cluster with two nodes, prints its kubeconfig, and runs until Ctrl-C.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.kubernetes.clean_up import LOCK, remains, remove_abandoned
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.host import Network, create_folder, create_network, save_sysctls
from tests.support.kubernetes.images import Image, pause_image, spark_image
from tests.support.kubernetes.node import Node, NodePlace
from tests.support.kubernetes.processes import reap
from tests.support.kubernetes.requirements import require_programs
from tests.support.repository import ROOT

NODES: Final = 2

NODE_MEMORY_MIB: Final = 3072


class KubernetesCluster:
    """A control plane and its nodes.

    Attributes:
        folder: folder of all files of the cluster. Each server has its log in it.
        control_plane: the servers of the control plane.
        nodes: the nodes that were started.
        network: the network of the nodes and of their pods.
    """

    def __init__(self, folder: Path, programs: Path, network: Network) -> None:
        self.folder = folder
        self.control_plane = ControlPlane(folder, programs, network)
        self.nodes: Sequence[Node] = ()
        self._programs = programs
        self.network = network

    def start_nodes(self) -> None:
        """Start the nodes at the same time. Does nothing if they were started."""
        if self.nodes:
            return
        images = self._write_images()
        places = [NodePlace(index, self.folder / f"node-{index + 1}", self.network) for index in range(NODES)]
        self.nodes = [
            Node(place, self.control_plane, self._programs, images, memory_mib=NODE_MEMORY_MIB) for place in places
        ]
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.start, self.nodes))

    def add_image(self, image: Image) -> None:
        """Let pods use another image, on all nodes."""
        archive = self.folder / f"{image.name.replace('/', '-')}.tar"
        image.write(archive)
        for node in self.nodes:
            node.import_image(archive)

    def node(self, name: str) -> Node:
        """Return the node with this name."""
        return next(node for node in self.nodes if node.name == name)

    def _write_images(self) -> Sequence[Path]:
        images = {"pause.tar": pause_image(self._programs / "pause"), "spark.tar": spark_image()}
        for name, image in images.items():
            image.write(self.folder / name)
        return [self.folder / name for name in images]


@contextmanager
def running_cluster() -> Iterator[KubernetesCluster]:
    """Run a control plane for the duration of the block. `start_nodes` adds the nodes.

    Raises:
        MissingRequirementError: the machine cannot run a cluster.
        RuntimeError: something of the cluster remains.
    """
    programs = require_programs()
    remove_abandoned()
    folder = create_folder()
    with _guarded(folder):
        save_sysctls(folder)
        cluster = KubernetesCluster(folder, programs, create_network(folder, NODES))
        cluster.control_plane.start()
        yield cluster
    if left := remains(folder):
        raise RuntimeError(f"the cluster has left behind: {', '.join(left)}")


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Remove the cluster at the end of the block, or when this process dies."""
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "tests.support.kubernetes.clean_up", str(folder)]
        guardian = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[lock.fileno()], start_new_session=True, cwd=ROOT
        )
    try:
        yield
    finally:
        guardian.communicate()
        reap()
        if guardian.returncode:
            raise RuntimeError(f"the removal of {folder} failed")


if __name__ == "__main__":
    with running_cluster() as started:
        started.start_nodes()
        print("export KUBECONFIG=" + str(started.control_plane.write_kubeconfig("admin", started.control_plane.admin)))
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("The cluster ends.")
