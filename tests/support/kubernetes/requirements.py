"""What a machine needs to run the test cluster, and the folder of the programs that the cluster runs.

`python -m tests.support.kubernetes.requirements` prints one line that names what is missing, and then exits with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

PROGRAMS: Final = ("pause", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")

SYSTEM_PATH: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""The programs of the system's packages are also in folders that the PATH of a user does not contain."""

CNI_PLUGINS: Final = Path("/usr/lib/cni")

BUILD: Final = ROOT / ".ci" / "build_kubernetes.sh"


class MissingRequirementError(Exception):
    """The machine cannot run the test cluster. The message is one line that names what is missing.

    Attributes:
        requirement: what is missing.
    """

    def __init__(self, requirement: str) -> None:
        super().__init__(f"The test cluster needs {requirement}.")
        self.requirement = requirement


def programs_folder() -> Path:
    """Return the folder into which `.ci/build_kubernetes.sh` builds the programs of the cluster."""
    found = subprocess.run([BUILD, "folder"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def require_machine() -> None:
    """Check what no script installs.

    Raises:
        MissingRequirementError: something is missing.
    """
    _raise_first(_missing_from_machine())


def require_programs() -> Path:
    """Check that a cluster can start, and return the folder of its programs.

    Raises:
        MissingRequirementError: something is missing.
    """
    folder = programs_folder()
    _raise_first(_missing_from_machine())
    _raise_first(_missing_programs(folder))
    return folder


def _missing_from_machine() -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"Linux (this machine runs {sys.platform})"
    elif os.geteuid() != 0:
        yield "root, because kubelet and containerd create containers and a bridge"
    if shutil.which("go") is None:
        yield "Go, which builds the cluster's programs (https://go.dev/dl)"


def _missing_programs(folder: Path) -> Iterator[str]:
    for program in ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "docker-registry"):
        if shutil.which(program, path=SYSTEM_PATH) is None:
            yield f"{program}: run .ci/ensure_containerd.sh"
    if not (CNI_PLUGINS / "bridge").exists():
        yield f"the CNI plugins in {CNI_PLUGINS}: run .ci/ensure_containerd.sh"
    for program in PROGRAMS:
        if not (folder / program).exists():
            yield f"{folder / program}: run .ci/build_kubernetes.sh"


def _raise_first(missing: Iterator[str]) -> None:
    if (first := next(missing, None)) is not None:
        raise MissingRequirementError(first)


if __name__ == "__main__":
    try:
        require_machine()
    except MissingRequirementError as error:
        sys.exit(str(error))
