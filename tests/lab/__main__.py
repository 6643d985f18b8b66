"""Runs a task of the laboratory, and lists the tasks if none is named.

`make lab TASK='chaos --minutes 1'` and `python -m tests.lab chaos --minutes 1` do the same. The words after the name of a task are arguments of its program, and
`TASK='chaos --help'` describes them.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from tests.support.repository import ROOT

NO_TEST_LEFT: Final = 5
"""Exit code of pytest after a run that had nothing to do, because earlier runs have done it."""


@dataclass(frozen=True)
class Task:
    """A task of the laboratory.

    Attributes:
        about: one line of the list.
        command: module with arguments, for `python -m`.
        server: target of the Makefile that prepares the server which the task needs, "" without one.
    """

    about: str
    command: str
    server: str = ""


BENCHMARKS: Final = "tests.lab.benchmarks"

OUTAGES: Final = (
    "--section outages --jobs 1000 --runs 1 --seconds 60 --master-delay 2 --storage-delay 0.03 --store-hangs --restart"
)

TASKS: Final = {
    "chaos": Task("inject random faults into one job for ten minutes, then count its rows", "tests.lab.faults.chaos"),
    "faults": Task(
        "inject every fault at every moment on a real Spark cluster; results in tests/lab/results/faults.md (hours; resumes; SHARD=1/3; RUNS=3 wants three results of each)",
        "pytest tests/lab/faults --ignore tests/lab/faults/unit --ignore tests/lab/faults/kubernetes",
    ),
    "faults-on-kubernetes": Task(
        "the same on a real Kubernetes cluster", "pytest tests/lab/faults/kubernetes", "kubernetes"
    ),
    "weeks": Task(
        "let hundreds of things happen to a simulated job, and check that its loops leave nothing behind (a minute)",
        "pytest --numprocesses 0 -m long tests/unit/_engine/test_loop_weeks.py",
    ),
    "fleet": Task("simulate fleets of jobs from seeds, as 1-1000, and check the invariants", "tests.lab.fleet"),
    "fleet-defects": Task(
        "bring fixed defects back, and check that a named seed finds each; results in tests/lab/results/proof.md",
        "tests.support.fleet.reverts",
    ),
    "unit": Task(
        "run the unit tests with all examples, and those that `make test` leaves out (half an hour)",
        "pytest --hypothesis-profile nightly --numprocesses auto --dist worksteal tests/unit tests/repository tests/lab/unit tests/lab/faults/unit",
    ),
    "explore": Task("explore the state space of small jobs for five minutes", "tests.support.scheduler.exploration"),
    "mutants": Task(
        "mutate code, and find the mutants that no test detects: 'mutants run airflow_adaptive._core.scheduler.*', then 'mutants results' (hours; resumes)",
        "mutmut",
    ),
    "bench-scheduler": Task(
        "a step of the scheduler, and the load balancing, with 100 to 100,000 slots (a minute)",
        f"{BENCHMARKS}.scheduler",
    ),
    "bench-list": Task(
        "the response time of the list of 1,000 jobs on PostgreSQL (2 minutes)", f"{BENCHMARKS}.job_list", "postgresql"
    ),
    "bench-balance": Task(
        "the balance of tasks on Spark, with and without load balancing (6 minutes)", f"{BENCHMARKS}.balance"
    ),
    "bench-triggerer": Task("a triggerer with 10, 100 and 1,000 jobs (15 minutes)", f"{BENCHMARKS}.triggerer"),
    "bench-outages": Task(
        "a triggerer with 1,000 jobs during outages of master, storage and Airflow's stores (15 minutes)",
        f"{BENCHMARKS}.triggerer {OUTAGES}",
    ),
    "bench-rescale": Task("each rescale tier on Spark, and Flink (45 minutes)", f"{BENCHMARKS}.rescale"),
    "bench-rescale-largest": Task("tier 2 with ten million keys (15 minutes)", f"{BENCHMARKS}.rescale --largest"),
    "bench-rescale-on-kubernetes": Task(
        "the same on Kubernetes, beside a standalone cluster",
        f"{BENCHMARKS}.rescale --cluster kubernetes",
        "kubernetes",
    ),
    "bench-takeover": Task(
        "a killed driver and a new deployment, with and without a prepared driver (20 minutes)",
        f"{BENCHMARKS}.takeover",
    ),
    "bench-takeover-on-kubernetes": Task(
        "a killed driver and a drained node, with and without a standby or a disruption budget (30 minutes)",
        f"{BENCHMARKS}.takeover --cluster kubernetes",
        "kubernetes",
    ),
    "bench-real-time": Task(
        "the latency of Real-Time Mode around rescales (6 minutes)", f"{BENCHMARKS}.real_time", "kafka"
    ),
    "bench-kafka": Task(
        "queries of Nexmark from a topic, on Spark and on Flink (25 minutes)", f"{BENCHMARKS}.nexmark", "kafka"
    ),
}


def main(arguments: list[str]) -> int:
    """Run a task; returns its exit code."""
    if not arguments or arguments[0] not in TASKS:
        sys.stdout.writelines(f"  make lab TASK={name:28}{task.about}\n" for name, task in TASKS.items())
        return 1 if arguments else 0
    task = TASKS[arguments[0]]
    if task.server:
        subprocess.run(["make", "--silent", task.server], cwd=ROOT, check=True)
    command = [sys.executable, "-m", *task.command.split(), *arguments[1:]]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if code == NO_TEST_LEFT else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
