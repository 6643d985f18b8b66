"""Damages checkpoints of real queries and writes down what came of it; a process of its own, since it starts a JVM.

Usage: damage_experiment.py <directory>
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.failures import report_exception, report_throwable
from airflow_adaptive.job.state.checkpoint_files import explain_by_damage, require_sound_checkpoint
from airflow_adaptive.job.state.damage import DamagedCheckpointError
from airflow_adaptive.job.state.repartition import ROCKSDB

RESULT = "trials.json"
CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
COMPACT = ("spark.sql.streaming.fileSink.log.compactInterval", "spark.sql.streaming.fileSource.log.compactInterval")
BATCHES = 4
"""Batches of each sound checkpoint; the logs of files are compacted with batch 2, so batch 5 compacts them again."""


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def missing(file: Path) -> None:
    file.unlink()


def unreadable(file: Path) -> None:
    """A folder has the name of the file."""
    file.unlink()
    file.mkdir()


def flipped(file: Path) -> None:
    """One byte in the middle has another value."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    file.write_bytes(bytes(content))


def ahead(file: Path) -> None:
    """The log has a later batch, too."""
    shutil.copy(file, file.with_name(str(int(file.name) + 2)))


HARMS: dict[str, tuple[Callable[[Path], None], ...]] = {
    "checkpoint/commits/3": (empty, cut, missing, unreadable, ahead),
    "checkpoint/offsets/3": (empty, cut, missing, unreadable, ahead),
    "checkpoint/metadata": (empty, cut, missing, unreadable, flipped),
    "checkpoint/sources/0/2.compact": (empty, cut, missing, unreadable, flipped),
    "checkpoint/sources/0/3": (empty, cut, missing, unreadable, ahead),
    "out/_spark_metadata/2.compact": (empty, cut, missing, unreadable, flipped),
    "out/_spark_metadata/3": (empty, cut, missing, unreadable, ahead),
    "checkpoint/state/0/_metadata/metadata": (empty, cut, missing, unreadable, flipped),
    "checkpoint/state/0/1/STATE": (empty, cut, missing, unreadable, flipped),
}


class Trial:
    """A query over files of which each is a batch; its checkpoint and its output can be put back as they were."""

    def __init__(self, spark: SparkSession, root: Path, state: str) -> None:
        self.spark, self.root, self.state = spark, root, state
        spark.conf.set(CHANGES, str(state.endswith("changelog")).lower())
        (root / "in").mkdir(parents=True)
        for number in range(BATCHES):
            self.feed(number)
            self.writer().start().awaitTermination()
        for number in range(BATCHES, 2 * BATCHES):
            self.feed(number)
        for folder in ("checkpoint", "out"):
            shutil.copytree(root / folder, root / f"sound {folder}")

    def feed(self, number: int) -> None:
        lines = "".join(json.dumps({"id": number * 10 + row}) + "\n" for row in range(10))
        (self.root / "in" / f"{number}.json").write_text(lines)

    def writer(self) -> DataStreamWriter:
        ids = self.spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(str(self.root / "in"))
        out = ids.dropDuplicates(["id"]).writeStream.format("json").option("path", str(self.root / "out"))
        return out.option("checkpointLocation", self.uri).trigger(availableNow=True)

    @property
    def uri(self) -> str:
        return f"file://{self.root}/checkpoint"

    def harmed(self, name: str, harm: Callable[[Path], None]) -> dict[str, Any]:
        """Damage a file, and return what the inspections say, and how often each row is in the output."""
        for folder in ("checkpoint", "out"):
            shutil.rmtree(self.root / folder)
            shutil.copytree(self.root / f"sound {folder}", self.root / folder)
        file = self.root / name.replace("STATE", self.state)
        for checksum in (file.with_name(f".{file.name}.crc"), file.with_name(f".{file.name}.crc.crc")):
            checksum.unlink(missing_ok=True)
        harm(file)
        found = {"before": "", "after": "", "spark": ""}
        try:
            require_sound_checkpoint(self.spark, self.writer(), self.uri)
            found |= self.run()
        except DamagedCheckpointError as error:
            found["before"] = str(error)
        try:
            rows = [row.id for row in self.spark.read.schema("id LONG").json(str(self.root / "out")).collect()]
        except (PySparkException, Py4JJavaError):
            rows = []
        return {**found, "rows": len(rows), "distinct": len(set(rows))}

    def run(self) -> dict[str, str]:
        try:
            query = self.writer().start()
        except (PySparkException, Py4JJavaError) as error:
            return {"spark": report_exception(error).error_class}
        try:
            query.awaitTermination()
        except PySparkException:
            execution = query._jsq.streamingQuery()
            failure = report_throwable(query._jsq.exception().get(), "query")
            explained = explain_by_damage(self.spark, execution, failure, 2)
            return {"spark": failure.error_class, "after": explained.message if explained is not failure else ""}
        return {}


def session() -> SparkSession:
    conf = {
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        **dict.fromkeys(COMPACT, "3"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(root: Path) -> None:
    spark = session()
    found: dict[str, dict[str, Any]] = {}
    for state in (f"{BATCHES}.changelog", f"{BATCHES}.zip"):
        trial = Trial(spark, root / state, state)
        for name, harms in HARMS.items():
            if state.endswith("changelog") or "STATE" in name:
                for harm in harms:
                    found[f"{name.replace('STATE', state)} {harm.__name__}"] = trial.harmed(name, harm)
                    (root / RESULT).write_text(json.dumps(found, indent=1))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
