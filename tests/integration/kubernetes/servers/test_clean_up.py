"""Nothing of a test cluster remains on the machine, whatever ends it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.clean_up import SHARED_FOLDERS, remains, remove_abandoned, remove_unused_folders
from tests.support.kubernetes.processes import processes_of
from tests.support.repository import ROOT

OWNER = """
import time
from tests.support.kubernetes.cluster import running_cluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace

with running_cluster() as cluster:
    cluster.start_nodes()
    with cluster.control_plane.api(cluster.control_plane.admin) as api:
        namespace = Namespace(api, "default")
        container = {"name": "main", "image": SPARK, "command": ["sleep", "3600"]}
        for name in ("one", "two"):
            namespace.create("Pod", name, {"spec": {"containers": [container]}})
            namespace.wait_for_pod(name, lambda pod: pod["status"]["phase"] == "Running")
    print(cluster.folder, flush=True)
    input()
"""


def shared_folders() -> set[Path]:
    """Return the folders outside the cluster's folder that exist: those that the cluster of the session uses, if it runs."""
    return {
        folder
        for folder in (*SHARED_FOLDERS, Path("/usr/libexec/kubernetes"), Path("/opt/containerd"))
        if folder.exists()
    }


@pytest.fixture
def before() -> set[Path]:
    """The shared folders that exist before the test starts a cluster, without those that an earlier cluster left empty."""
    remove_unused_folders()
    return shared_folders()


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """A process that runs a cluster with two pods until it receives a line."""
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as process:
        yield process
        process.kill()


def folder_of(owner: subprocess.Popen[str]) -> Path:
    """Return the folder of the owner's cluster, and check that the cluster has left traces on the machine."""
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    assert {trace.split()[0] for trace in remains(folder)} == {"process", "mount", "cgroup", "file", "interface"}
    return folder


@pytest.mark.long
def test_nothing_remains_after_the_end(before: set[Path], owner: subprocess.Popen[str]):
    folder = folder_of(owner)
    owner.communicate("end\n")
    assert owner.returncode == 0
    assert remains(folder) == []
    assert not folder.exists()
    assert shared_folders() <= before  # The end also removes what an earlier cluster left that was killed.
    assert list(Path("/sys/fs/cgroup").glob(f"**/{folder.name}")) == []


def test_nothing_remains_after_the_owner_was_killed(owner: subprocess.Popen[str]):
    folder = folder_of(owner)
    owner.kill()
    wait_until(lambda: not folder.exists(), 60, "removal by the guardian")
    assert remains(folder) == []


@pytest.mark.long
def test_the_next_cluster_removes_what_a_killed_owner_and_a_killed_guardian_left(owner: subprocess.Popen[str]):
    folder = folder_of(owner)
    remove_abandoned()
    assert folder.exists()
    guardian = next(child for child in psutil.Process(owner.pid).children() if "clean_up" in str(child.cmdline()))
    guardian.kill()
    owner.kill()
    owner.wait()
    guardian.wait(60)
    assert processes_of(folder) != []
    remove_abandoned()
    assert remains(folder) == []
    assert not folder.exists()
