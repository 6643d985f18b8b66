"""Runs the demo on a real Kubernetes cluster on this machine, of which nothing remains afterwards (`make demo CLUSTER=kubernetes`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from airflow_adaptive.local.__main__ import main as run_local
from tests.support.kubernetes.cluster import running_cluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.requirements import MissingRequirementError, require_machine
from tests.support.repository import ROOT

PROGRAMS = (".ci/ensure_containerd.sh", ".ci/build_kubernetes.sh")


def main(arguments: Sequence[str]) -> int:
    """Build the programs of the cluster if they are missing, start the cluster, and run the demo with further arguments."""
    try:
        require_machine()
        for program in PROGRAMS:
            subprocess.run([ROOT / program], check=True, stdout=subprocess.DEVNULL)
        with running_cluster() as cluster:
            cluster.start_nodes()
            plane = cluster.control_plane
            return run_local([
                "demo", "--context", "demo", "--kubeconfig", str(plane.write_kubeconfig("demo", plane.admin)),
                "--image", SPARK, "--conf", f"spark.kubernetes.driver.master={plane.url}", *arguments,
            ])  # fmt: skip
    except MissingRequirementError as error:
        sys.stderr.write(
            f"The demo on Kubernetes needs {error.requirement}. CONTEXT=<name> selects an existing cluster.\n"
        )
    except subprocess.CalledProcessError as error:  # The script has printed the reason.
        sys.stderr.write(f"{error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
