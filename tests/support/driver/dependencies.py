"""A script that needs a jar, a package, a file, an archive and Python modules, and what it needs."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies

SCRIPT: Final = """
import sys
from pathlib import Path

import carriers
import charts
import routes
from airflow_adaptive.job import AdaptiveJob
from pyspark import SparkFiles
from pyspark.sql.functions import udf

ROOT = sys.argv[1]


def on_executor(number):
    import charts, routes

    zone = Path(SparkFiles.get("zones"), "utc").read_text()
    return " ".join([carriers.NAME, charts.NAME, routes.VERSION, Path(SparkFiles.get("routes.csv")).read_text(), zone])


def count(spark, parallelism):
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = Path(loader.getResource("fleet.txt").getPath().removeprefix("file:").partition("!")[0]).name
    on_driver = Path(SparkFiles.get("routes.csv")).read_text() + Path(SparkFiles.get("zones"), "utc").read_text()
    rows = spark.readStream.schema("id LONG").json(f"{ROOT}/in")
    driver = f"{jar} {routes.VERSION} {charts.NAME} {on_driver}"
    found = rows.selectExpr("id", f"'{driver}' AS driver").withColumn("executor", udf(on_executor, "string")("id"))
    return found.writeStream.format("json").option("path", f"{ROOT}/out")


AdaptiveJob(count).run()
"""
"""Writes what the driver and the executors read into `out`, for each row of `in`, in the folder that the first argument names."""

FOUND: Final = ("fleet.jar 1.1 approach TXL-MUC+0", "Lufthansa approach 1.1 TXL-MUC +0")
"""What the driver and the executors read."""

LARGE_BYTES: Final = 1_000_000
"""More than a ConfigMap of a driver holds (`_clusters.kubernetes.driver.manifests.MOST_BYTES`)."""

PACKAGE: Final = "org.example:routes:1.1"

SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers><ibiblio name="folder" m2compatible="true" root="file://{repository}"/></resolvers>
</ivysettings>
"""

METADATA: Final = """\
<metadata><groupId>org.example</groupId><artifactId>routes</artifactId>
<versioning><latest>1.2</latest><release>1.2</release><versions><version>1.1</version><version>1.2</version></versions></versioning></metadata>
"""

POM: Final = """\
<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>routes</artifactId><version>{version}</version></project>
"""


def dependencies_in(folder: Path) -> Dependencies:
    """Create what the script needs in a folder."""
    (folder / "carriers.py").write_text("NAME = 'Lufthansa'\n")
    (folder / "routes.csv").write_text("TXL-MUC")
    (folder / "utc").write_text("+0")
    with zipfile.ZipFile(folder / "fleet.jar", "w") as jar:
        jar.writestr("fleet.txt", "A320")
    with zipfile.ZipFile(folder / "charts.zip", "w") as modules:
        modules.writestr("charts.py", "NAME = 'approach'\n")
        modules.writestr("charts.bin", os.urandom(LARGE_BYTES))
    with tarfile.open(folder / "zones.tar.gz", "w:gz") as archive:
        archive.add(folder / "utc", "utc")
    return Dependencies(
        jars=str(folder / "fleet.jar"),
        packages=PACKAGE,
        files=[str(folder / "routes.csv")],
        archives=[f"{folder}/zones.tar.gz#zones"],
        py_files=[(folder / "carriers.py").as_uri(), str(folder / "charts.zip")],
    )


def ivy_properties(folder: Path) -> dict[str, str]:
    """Create a repository with the package in a folder that the driver can read, and return the properties that select it."""
    package = folder / "repository" / "org" / "example" / "routes"
    for version in ("1.1", "1.2"):
        (package / version).mkdir(parents=True)
        (package / version / f"routes-{version}.pom").write_text(POM.format(version=version))
        with zipfile.ZipFile(package / version / f"routes-{version}.jar", "w") as jar:
            jar.writestr("routes.py", f"VERSION = '{version}'\n")
    (package / "maven-metadata.xml").write_text(METADATA)
    settings = folder / "ivysettings.xml"
    settings.write_text(SETTINGS.format(repository=folder / "repository"))
    return {"spark.jars.ivySettings": str(settings)}
