"""docs/reference/compatibility.md is generated from what the tests run; write the page with `python -m tests.repository.test_compatibility_page`."""

from __future__ import annotations

import re
import tomllib

from airflow_adaptive._airflow.internals import INTERNALS
from airflow_adaptive._core.protocol.documents import Capability
from airflow_adaptive._core.python_version import OLDEST_PYTHON
from airflow_adaptive.job.spark_internals import report_spark
from tests.support.kafka.jars import BROKER, CONNECTORS
from tests.support.repository import ROOT
from tests.support.tables.jars import FORMATS

PAGE = ROOT / "docs" / "reference" / "compatibility.md"
GO_MODULES = ROOT / "tests" / "support" / "kubernetes" / "programs" / "go.mod"

HEAD = """# Compatibility

*Tested* names the version that the tests run. *Expected* versions have the same interfaces, and no test runs them.

## Spark on the cluster

The cluster needs PySpark, Python {python} or later, and Java 17 or later ({java}). It needs no other package, because Airflow ships the runtime with
the script. *Test connection* warns if the master of a standalone cluster has an unsupported version. A driver with an unsupported version of Spark or Python fails
its job at once, with the supported versions.

Master, workers and driver image must have the same version of Spark, and the driver and its executors the same minor version of Python, as Spark itself requires. Otherwise, the error
of the job names the versions or the images. A checkpoint can move to a newer version of Spark. An older version
reads it unless the newer one has written a newer format; then the job fails with the reason, and the checkpoint is unchanged.

| Spark | Tested | Kafka | Delta Lake | Apache Iceberg |
|---|---|---|---|---|
"""

REST = """| 3.5 and earlier | refused | - | - | - |

{lacks}
`packages=[...]` gets the connector of your version of Spark, for example `packages=["{iceberg}"]`. Spark does not
compare the versions: a connector for another one may run without a warning. If it is missing, or if its classes or methods do not fit, the error of the job names the
package. See [sinks and sources](../guides/sinks.md).

## Airflow

| Component | Supported | Tested |
|---|---|---|
| Airflow | {airflow} | {airflow_tested}; the demo also runs on 3.1.8 and 3.2.2 |
| Python of Airflow | {airflow_python} | 3.11 |
| Airflow's database | PostgreSQL; MySQL (expected); SQLite for development only | PostgreSQL 15, SQLite; see [databases](../guides/databases.md#supported-databases) |
| Executors | all | LocalExecutor, CeleryExecutor |

Airflow 3.1 and 3.2 have no state store of Assets. There, the control requests of a job are in Variables whose keys begin with `airflow_adaptive:`; do not edit them, and exclude
these keys from the secrets backend of the API server, which would be searched at each read. After an upgrade to Airflow 3.3, a job keeps its requests. Airflow 3.1
cannot cancel a job whose task ended while no triggerer ran: run its DAG again, and cancel the job then. It also logs each read of a request that does not exist as the
error "Variable not found" in the log of the triggerer.

A job runs on while Airflow is upgraded or downgraded: its driver processes rows, and the next control loop continues with its journal, its bounds and its driver. Give the task
`retries`, because the scheduler can start a task before the API server answers, and because a migration on SQLite deletes the task instances that wait for a trigger, which
Airflow then starts again. `airflow db downgrade` from 3.3 deletes the state store of Assets. The bounds and their requester survive in the journal. Requests that the loop has
not read yet are lost, and the page of a job that does not run has no history until its next run.

If you change `[core] fernet_key`, append the earlier key to the new one, separated by a comma, until `airflow rotate-fernet-key` has encrypted the Variables again. Without the
earlier key, the jobs run on, and the page names the problem.

{airflow_lacks}
An Airflow before {oldest} is refused with one message. Airflow {excluded} keeps its attempts and XComs in other tables. Only the unit
tests have passed on it (3.4.0b2), so the package excludes it: [ADR 27](../adr/0027-airflow-3-4.md) lists what changes. See [Deployment](../guides/platforms/index.md) for the Helm chart and managed services.

## Cluster managers and platforms

| Cluster manager | Support |
|---|---|
| Spark standalone, with the REST API of the master | tested with each version of Spark above |
| Kubernetes | tested with Kubernetes {kubernetes} and Spark {on_kubernetes}; expected with each version of Spark above and Kubernetes 1.27 or later, also on EKS, GKE and AKS |
| YARN (EMR on EC2, Dataproc, Cloudera) | not supported |
| Databricks, EMR Serverless, Dataproc Serverless | not supported: a job needs a cluster whose executors can be added and removed |

## Kafka

Each version of Spark is tested with the connector in its row above, and with brokers of Kafka {broker}.

The connector 4.1.1 has a defect ([SPARK-57438](https://github.com/apache/spark/pull/56526)): when a query has repeated and committed the batch that a failure interrupted, it
fails once more with `NullPointerException: Cannot invoke "scala.collection.IterableOps.map(scala.Function1)"`. So each failure within a batch costs two restarts; no row
is lost or written twice because of it. The connectors for 4.0 and 4.2 do not have the defect.
"""

JAVA = "tested with Java 17; Spark 4.2.1 and 4.3.0 also run on Java 25, 4.0.5 does not"
"""`JAVA_HOME=... make lab TASK='chaos --seed 11'` runs on another Java, which needs the module `jdk.incubator.vector`. Reduced runtimes lack it."""

ON_KUBERNETES = ("4.0.5", "4.3.0")
"""Versions of Spark with which the tests on Kubernetes have run."""

OTHER_LIMITS = (
    ("3.2", "the commands `airflow adaptive`", "`python -m airflow_adaptive`"),
    ("3.2", "the fields of connections in Airflow's form", "JSON in *Extra Fields JSON*"),
    ("3.3", "the job in the address of the browser, also after a reload", "the list of all jobs"),
)
"""First version, use and replacement of what Airflow lacks in its pages and commands, beside the names of `INTERNALS`."""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _pinned(package: str) -> str:
    (version,) = re.findall(rf"^{package}==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return str(version)


def spark_versions() -> list[str]:
    """Return the versions of Spark that the tests run, oldest first."""
    (others,) = re.findall(r"^SPARK_VERSIONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [*others.split(), _pinned("pyspark")]


def connector(table_format: str, minor: str) -> str:
    """Return the coordinates of a connector, "" if none is published for a version of Spark."""
    packages = FORMATS[table_format].get(minor)
    return "" if packages is None else packages.names[0]


def spark_row(version: str) -> str:
    minor = _minor(version)
    cells = [f"`{found}`" if (found := connector(name, minor)) else "not published" for name in FORMATS]
    cells.insert(0, f"`{CONNECTORS[minor].names[0]}`")
    return f"| {minor} | {version} | {' | '.join(cells)} |\n"


def lacking() -> str:
    """Return what some of the tested versions of Spark cannot do, a line for each version that can."""
    oldest = report_spark(spark_versions()[0]).lacks
    since: dict[str, list[str]] = {}
    for capability, version in oldest.items():
        if capability != Capability.HOLD:
            since.setdefault(version, []).append(capability)
    return "".join(f"Spark before {version} cannot {', or '.join(them)}.\n" for version, them in since.items())


def airflow_lacks(airflow: str) -> str:
    """Return the table of the features that some supported versions of Airflow lack."""
    (oldest, excluded) = (int(minor) for minor in re.findall(r"3\.(\d+)", airflow))
    since = {*OTHER_LIMITS, *((it.since, it.use, it.instead) for it in INTERNALS.values())}
    rows = [
        f"| {', '.join(f'3.{minor}' for minor in range(oldest, int(first.removeprefix('3.'))))} | {use} | {instead} |\n"
        for first, use, instead in sorted(since)
        if int(first.removeprefix("3.")) in range(oldest + 1, excluded)
    ]
    return "| Airflow | Lacks what this needs | Instead |\n|---|---|---|\n" + "".join(rows)


def page() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (airflow,) = [
        it.removeprefix("apache-airflow") for it in project["dependencies"] if it.startswith("apache-airflow>")
    ]
    (kubernetes,) = re.findall(r"^\s*k8s.io/kubernetes v(\S+)", GO_MODULES.read_text(), re.MULTILINE)
    newest_iceberg = [found for version in spark_versions() if (found := connector("iceberg", _minor(version)))][-1]
    rest = REST.format(
        lacks=lacking(),
        iceberg=newest_iceberg,
        airflow=airflow.replace(",", ", "),
        airflow_lacks=airflow_lacks(airflow),
        oldest=airflow.partition(",")[0].removeprefix(">="),
        excluded=airflow.rpartition("<")[2],
        airflow_tested=_pinned("apache-airflow"),
        airflow_python=project["requires-python"].replace(",", ", "),
        kubernetes=kubernetes,
        on_kubernetes=", ".join(ON_KUBERNETES),
        broker=BROKER.names[0].rpartition(":")[2],
    )
    return (
        HEAD.format(python=".".join(map(str, OLDEST_PYTHON)), java=JAVA)
        + "".join(map(spark_row, spark_versions()))
        + rest
    )


def test_page_is_generated_from_what_the_tests_run() -> None:
    assert PAGE.read_text() == page()


if __name__ == "__main__":
    PAGE.write_text(page())
