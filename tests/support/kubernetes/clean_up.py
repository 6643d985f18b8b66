"""Removes everything that belongs to a cluster, and describes what remains.

Everything is found from the folder of the cluster: processes by their environment and by their cgroups, mounts and sockets by their
path, and the rest by its name. The order therefore does not depend on how the cluster ended.

As a program, this module is the guardian of a cluster: it waits until its owner closes the pipe on standard input or dies for any
reason, and then cleans up. `python -m tests.support.kubernetes.clean_up FOLDER`
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Final

import psutil

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.host import (
    CONTAINERS,
    PREFIX,
    cgroups_of,
    ip,
    processes_in_cgroups,
    restore_sysctls,
    shim_sockets,
)
from tests.support.kubernetes.processes import kill_all, processes_of

TIMEOUT_S: Final = 240.0

LOCK: Final = "lock"
"""The owner of a cluster and its guardian hold the lock of this file until the cluster is removed."""

SHIM_SOCKETS: Final = Path("/run/containerd/s")

CNI_RESULTS: Final = Path("/var/lib/cni/results")

LOG_LINKS: Final = Path("/var/log/containers")

DEVICE_PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")

SHARED_FOLDERS: Final = (
    SHIM_SOCKETS, SHIM_SOCKETS.parent, CNI_RESULTS, CNI_RESULTS.parent, LOG_LINKS, DEVICE_PLUGINS, DEVICE_PLUGINS.parent,
)  # fmt: skip
"""Folders with a fixed place, which the clusters of a machine share. An inner folder comes before its parent."""


def clean_up(folder: Path) -> None:
    """Remove a cluster.

    Raises:
        TimeoutError: a process does not end, or something else remains.
    """
    wait_until(lambda: _killed(folder), TIMEOUT_S, f"end of the processes of {folder}")
    wait_until(lambda: _removed(folder), TIMEOUT_S, f"removal of {folder}")
    restore_sysctls(folder)
    shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove each cluster whose owner and guardian were killed."""
    for lock in Path(gettempdir()).resolve().glob(f"{PREFIX}??????/{LOCK}"):
        with lock.open() as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clean_up(lock.parent)


def remains(folder: Path) -> list[str]:
    """Return a description of everything outside its folder that a cluster or a node has left behind."""
    return [
        *(f"process {process.pid}" for process in _processes(folder)),
        *(f"mount {mount}" for mount in _mounts(folder)),
        *(f"cgroup {cgroup}" for cgroup in cgroups_of(folder.name)),
        *(f"file {file}" for file in _files(folder)),
        *(f"interface {interface}" for interface in os.listdir("/sys/class/net") if interface == folder.name),
    ]


def _killed(folder: Path) -> bool:
    processes = _processes(folder)
    kill_all(processes)
    return not processes


def _removed(folder: Path) -> bool:
    for mount in _mounts(folder):
        subprocess.run(["umount", mount], check=False, capture_output=True)
    for file in _files(folder):
        file.unlink(missing_ok=True)
    for cgroup in cgroups_of(folder.name):
        with suppress(OSError):
            cgroup.rmdir()
    with suppress(subprocess.CalledProcessError):
        ip("link", "delete", folder.name)
    remove_unused_folders()
    return not remains(folder)


def remove_unused_folders() -> None:
    """Remove the folders that no other cluster uses, and the socket of a kubelet that ended."""
    kubelet = DEVICE_PLUGINS / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(kubelet))
        except ConnectionRefusedError:
            kubelet.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
    for shared in SHARED_FOLDERS:
        with suppress(OSError):  # A folder that is in use is not empty.
            shared.rmdir()


def _processes(folder: Path) -> list[psutil.Process]:
    """Return the servers, what they started, and the processes of containers."""
    contained = []
    for pid in processes_in_cgroups(folder.name):
        with suppress(psutil.NoSuchProcess):
            if (process := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                contained.append(process)
    return processes_of(folder) + contained


def _mounts(folder: Path) -> list[str]:
    """Return the mounts inside the folder, inner mounts first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [mount for line in reversed(lines) if (mount := line.split()[1]).startswith(f"{folder}/")]


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of container runtime and kubelet that have a fixed place."""
    for node in folder.glob("node-*"):
        yield from shim_sockets(node)
        for container in node.glob(f"{CONTAINERS}/*"):
            yield from CNI_RESULTS.glob(f"*-{container.name}-*")
    for link in LOG_LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(folder):
            yield link


if __name__ == "__main__":
    sys.stdin.read()
    clean_up(Path(sys.argv[1]))
