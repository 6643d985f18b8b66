"""docs/reference/compatibility.md has the versions that the tests run; write its tables with `python -m tests.repository.test_compatibility_page`."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from airflow_adaptive._airflow.internals import INTERNALS
from airflow_adaptive._core.protocol.documents import Capability
from airflow_adaptive.job.spark_internals import report_spark
from tests.support.kafka.jars import BROKER, CONNECTORS
from tests.support.page_sections import replace_section, section
from tests.support.repository import ROOT
from tests.support.tables.jars import FORMATS

PAGE = ROOT / "docs" / "reference" / "compatibility.md"
GO_MODULES = ROOT / "tests" / "support" / "kubernetes" / "programs" / "go.mod"

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


def sections() -> dict[str, str]:
    """Return the parts of the page that are written: name -> text."""
    head = "| Spark | Tested | Kafka | Delta Lake | Apache Iceberg |\n|---|---|---|---|---|\n"
    rows = "".join(map(spark_row, spark_versions()))
    return {
        "spark": f"{head}{rows}| 3.5 and earlier | refused | - | - | - |\n",
        "lacks": lacking(),
        "airflow": airflow_lacks(supported_airflow()),
    }


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def supported_airflow() -> str:
    (airflow,) = [it for it in project()["dependencies"] if it.startswith("apache-airflow>")]
    return str(airflow.removeprefix("apache-airflow"))


def versions() -> list[str]:
    """Return the versions that the other tables and the sentences of the page must name."""
    (kubernetes,) = re.findall(r"^\s*k8s.io/kubernetes v(\S+)", GO_MODULES.read_text(), re.MULTILINE)
    newest_iceberg = [found for version in spark_versions() if (found := connector("iceberg", _minor(version)))][-1]
    airflow, python = (it.replace(",", ", ") for it in (supported_airflow(), project()["requires-python"]))
    return [newest_iceberg, kubernetes, airflow, python, _pinned("apache-airflow"), BROKER.names[0].rpartition(":")[2]]


def test_page_has_the_versions_that_the_tests_run() -> None:
    for name, text in sections().items():
        assert section(PAGE, name) == text
    assert [version for version in versions() if version not in PAGE.read_text()] == []


if __name__ == "__main__":
    for name, text in sections().items():
        replace_section(PAGE, name, text.removesuffix("\n"))
