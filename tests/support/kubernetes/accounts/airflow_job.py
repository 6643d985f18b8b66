"""A job of a real Airflow on a test cluster, with an account of the documentation and the strict sink."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness.deployment import MEMORY_MB, OPTIONS, SCRIPT, SINK
from tests.lab.faults.harness.sink_log import check, read_writes, row_ids
from tests.lab.faults.harness.strict_sink import FOLDER
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.kubernetes.accounts.manifests import AIRFLOW, DRIVER
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.control_plane import ControlPlane, Credentials
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace

ROWS: Final = 10
"""Rows of each input file."""

TIMEOUT_S: Final = 300.0

TASK: Final = "job"

DAG: Final = """
from airflow.sdk import DAG
from airflow_adaptive.operators import AdaptiveSparkOperator

with DAG({name!r}, schedule=None):
    AdaptiveSparkOperator(task_id="job", **{arguments!r})
"""


@dataclass
class AirflowJob:
    """A job that is the only task of a DAG, in a namespace with the accounts of the documentation.

    Attributes:
        name: id of the job, and of the DAG.
        root: folder of this machine that every pod sees at the same path.
        control_plane: servers of the cluster.
        namespace: namespace of the pods.
        changes: parameters of the operator that differ from the usual ones.
    """

    name: str
    root: Path
    control_plane: ControlPlane
    namespace: Namespace
    changes: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""
    files: int = 0

    def write_dag(self, dags: Path) -> None:
        """Create the folders and the DAG."""
        for folder in (self.root, self.root / "in", self.root / FOLDER, self.root / "jobs", self.job_directory):
            folder.mkdir()
            folder.chmod(0o777)  # The user of the containers is not the user of Airflow.
        conf = pod_properties(self.root, self.control_plane.url)
        del conf["spark.kubernetes.authenticate.driver.serviceAccountName"], conf["spark.kubernetes.container.image"]
        arguments = {
            "job": self.name,
            "application": str(SCRIPT),
            "py_files": [str(SINK)],
            "application_args": [str(self.root)],
            "job_directory": f"file://{self.root}/jobs",
            "parallelism": (1, 2),
            "conn_id": f"spark_{self.name}".lower(),
            "kubernetes_conn_id": f"kubernetes_{self.name}".lower(),
            "image": SPARK,
            "service_account_name": DRIVER,
            "driver_memory": f"{MEMORY_MB}m",
            "executor_memory": f"{MEMORY_MB}m",
            "conf": conf,
            **OPTIONS,
            "stop_timeout": "2 min",  # A JVM whose pod is short of CPU ends slowly, and a killed driver has no last output.
            **self.changes,
        }
        (dags / f"{self.name}.py").write_text(DAG.format(name=self.name, arguments=arguments))

    @property
    def job_directory(self) -> Path:
        return self.root / "jobs" / self.name

    @property
    def connections(self) -> dict[str, str]:
        """Environment of Airflow with the connections of the job."""
        token = self.namespace.token(AIRFLOW)
        kubeconfig = self.control_plane.write_kubeconfig(f"airflow-{self.name}", Credentials(token=token))
        spark = {
            "conn_type": "spark",
            "host": f"k8s://{self.control_plane.url}",
            "extra": {"namespace": self.namespace.name, "secret-env": {"DB_LOGIN": SECRET}},
        }
        kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
        return {
            f"AIRFLOW_CONN_SPARK_{self.name.upper()}": json.dumps(spark),
            f"AIRFLOW_CONN_KUBERNETES_{self.name.upper()}": json.dumps(kubernetes),
        }

    def feed(self) -> None:
        """Add an input file, at once."""
        ids = range(self.files * ROWS, (self.files + 1) * ROWS)
        hidden = self.root / "in" / f".{self.files:05d}.json"
        hidden.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
        hidden.rename(self.root / "in" / f"{self.files:05d}.json")
        self.files += 1

    def start(self, airflow: AirflowUnderTest) -> None:
        """Start the DAG."""
        wait_until(lambda: airflow.api.has_dag(self.name), TIMEOUT_S, f"DAG {self.name}")
        self.run_id = airflow.api.trigger(self.name)

    def xcom(self, airflow: AirflowUnderTest, key: str) -> Any:
        """Return an XCom of the task."""
        return airflow.api.xcom(self.name, self.run_id, TASK, key)

    def log(self, airflow: AirflowUnderTest) -> str:
        """Return the log of the task."""
        return airflow.api.task_log(self.name, self.run_id, TASK)

    def wait_rows(self) -> None:
        """Wait until all rows are in the output."""
        expected = set(range(self.files * ROWS))
        wait_until(lambda: expected <= set(row_ids(read_writes(self.root / FOLDER))), TIMEOUT_S, f"rows of {self.name}")

    def wait_parallelism(self, airflow: AirflowUnderTest, parallelism: int) -> None:
        """Wait until the job executes with a parallelism."""
        wanted = ("Executing", {"job": parallelism})
        wait_until(
            lambda: (self.xcom(airflow, "state"), self.xcom(airflow, "parallelism")) == wanted,
            TIMEOUT_S,
            f"{self.name} with parallelism {parallelism}",
        )

    def require(self, airflow: AirflowUnderTest, upper: int) -> None:
        """Set the upper bound of the job."""
        bounds = {"job": {"parallelism": {"lowerBound": 1, "upperBound": upper}}}
        airflow.api.set_asset_state(f"{JOBS}{self.name}", "requirements", {"value": bounds})

    def suspend(self, airflow: AirflowUnderTest) -> None:
        """Suspend the job."""
        airflow.api.set_asset_state(f"{JOBS}{self.name}", "desired_state", {"value": "suspended"})

    def wait_end(self, airflow: AirflowUnderTest, state: str) -> None:
        """Wait until the task has ended."""
        ends = ("success", "failed")
        wait_until(
            lambda: airflow.api.task_state(self.name, self.run_id, TASK) in ends, TIMEOUT_S, f"end of {self.name}"
        )
        assert airflow.api.task_state(self.name, self.run_id, TASK) == state, self.log(airflow)

    def check_output(self) -> None:
        """Check that the sink contains each row exactly once. Raises `SinkError`."""
        check(read_writes(self.root / FOLDER), range(self.files * ROWS))


SECRET: Final = "m4rked-login"
"""Secret variable of each driver."""
