"""Repartitions the state of real queries and writes down what came of it; a process of its own, since it starts a JVM.

Usage: repartition_experiment.py <directory>
       repartition_experiment.py <directory> <checkpoint> <partitions>    to be killed while it settles that checkpoint
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp, session_window
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.state.checkpoint import Checkpoint
from airflow_adaptive.job.state.repartition import (
    FORMAT,
    ROCKSDB,
    CheckpointRepartitioner,
    RepartitionError,
    planned_operators,
    state_partitions,
)
from airflow_adaptive.local.waiting import wait_until

RESULT = "trials.json"
PARTITIONS = 2
"""What the session has, all the time: with it the checkpoints are begun."""

COMPACT_INTERVAL = 4
"""Of the batches 0, 2 and 4 of a file sink, and the repartitions 1 and 3 among them, the last one compacts its log."""

KEYS = 40
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
TIMEOUT_S = 300.0


class Trial:
    """A query over files of which each is a batch, its checkpoint, and what it has written."""

    def __init__(self, spark: SparkSession, root: Path, kind: str = "count", checkpoint: str = "checkpoint") -> None:
        self.spark, self.root, self.kind = spark, root, kind
        self.checkpoint = root / checkpoint
        self.fails = False
        self.ensure = CheckpointRepartitioner(spark).ensure
        for folder in (root / "in", root / "other"):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def uri(self) -> str:
        return f"file://{self.checkpoint}"  # as the job directory gives it: what was escaped is in the folder's name

    def feed(self, *, files: int = 1, keys: int = KEYS) -> None:
        """Each file has each key once."""
        lines = "".join(json.dumps({"key": f"key {key}"}) + "\n" for key in range(keys))
        for folder in (self.root / "in", self.root / "other"):
            for _ in range(files):
                written = folder / ".written"
                written.write_text(lines)
                written.rename(folder / f"{len(list(folder.glob('*.json'))):04}.json")

    def writer(self) -> DataStreamWriter:
        rows, others = self._read("in"), self._read("other")
        dated = rows.withColumn("at", current_timestamp()).withWatermark("at", "1 minute")
        match self.kind:
            case "count":
                return self._collected(rows.groupBy("key").count())
            case "total":
                return self._collected(rows.groupBy().count())
            case "first":
                return self._files(rows.limit(5))
            case "distinct":
                return self._files(rows.dropDuplicates(["key"]))
            case "session":
                return self._files(dated.groupBy(session_window("at", "1 minute"), "key").count().select("key"))
            case "recent":
                return self._files(dated.dropDuplicatesWithinWatermark(["key"]).select("key"))
            case "join":
                return self._files(rows.join(others, "key"))
            case _:
                return self._files(rows)

    def run(self) -> None:
        """Up to the end of the input."""
        self.start(availableNow=True).awaitTermination()

    def start(self, **trigger: Any) -> Any:
        return self.writer().trigger(**trigger).option("checkpointLocation", self.uri).start()

    def cut(self) -> None:
        """Begin a batch that is not committed."""
        self.fails = True
        with contextlib.suppress(PySparkException):
            self.run()
        self.fails = False

    def counts(self) -> dict[str, int]:
        """The newest count of each key: what a query in update mode leaves behind."""
        found: dict[str, int] = {}
        for file in sorted(self._out.glob("*.json")):
            found |= {row["key"]: row["count"] for row in json.loads(file.read_text())}
        return found

    def rows(self) -> Counter[str]:
        """Each row of a file sink, by the sink's own log."""
        return Counter(row.key for row in self.spark.read.schema("key STRING").json(str(self._out)).collect())

    def batches(self, log: str) -> int:
        return len([file for file in (self.checkpoint / log).glob("*") if file.name.isdecimal()])

    def partitions(self) -> int | None:
        checkpoint = Checkpoint(self.spark, self.uri)
        return state_partitions(checkpoint, checkpoint.head())

    def tree(self) -> list[str]:
        return sorted(str(file.relative_to(self.checkpoint)) for file in self.checkpoint.rglob("*") if file.is_file())

    def refused(self, partitions: int, *, while_running: bool = False) -> dict[str, object]:
        """The messages of a repartition that is impossible, and whether the state is unchanged."""
        query = self.start(processingTime="1 hour") if while_running else None
        before, messages = self.tree(), []
        for attempt in (
            lambda: CheckpointRepartitioner(self.spark).check(self.uri, partitions, self.writer()),
            lambda: self.ensure(self.uri, partitions, self.writer()),
        ):
            try:
                attempt()
            except RepartitionError as error:
                messages.append(str(error))
        untouched = self.tree() == before
        if query is not None:
            query.stop()
        return {"messages": messages, "untouched": untouched}

    @property
    def _out(self) -> Path:
        return self.root / f"{self.checkpoint.name} out"

    def _read(self, folder: str) -> DataFrame:
        source = self.spark.readStream.schema("key STRING").option("maxFilesPerTrigger", 1)
        return source.json(str(self.root / folder))

    def _collected(self, rows: DataFrame) -> DataStreamWriter:
        def collect(batch: DataFrame, number: int) -> None:
            if self.fails:
                raise RuntimeError("cut")
            self._out.mkdir(exist_ok=True)
            (self._out / f"{number:04}.json").write_text(json.dumps([row.asDict() for row in batch.collect()]))

        return rows.writeStream.outputMode("update").foreachBatch(collect)

    def _files(self, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("json").option("path", str(self._out))


def session() -> SparkSession:
    conf = {
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.streaming.fileSink.log.compactInterval": str(COMPACT_INTERVAL),
        PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def moved(spark: SparkSession, root: Path, kind: str) -> dict[str, object]:
    trial = Trial(spark, root, kind)
    seen = []
    for partitions in (3, 1):
        trial.feed()
        trial.run()
        if kind == "distinct":  # Spark's part, as by a driver that was killed right after it
            spark._streamingCheckpointManager.repartition(trial.uri, partitions)
        trial.ensure(trial.uri, None if kind == "distinct" else partitions, trial.writer())
        seen.append(trial.partitions())
    trial.feed()
    trial.run()
    rows = trial.counts() if kind == "count" else trial.rows()
    return {"partitions": seen, "keys": len(rows), "values": sorted(set(rows.values()))}


def operators(spark: SparkSession, root: Path, kind: str) -> dict[str, object]:
    """As planned before the query's first batch, and as its checkpoint has them after it."""
    trial = Trial(spark, root, kind)
    planned = planned_operators(spark, trial.writer())
    trial.feed()
    trial.run()
    return {"planned": planned, "kept": [store.kind for store in Checkpoint(spark, trial.uri).stores(0)]}


def cut(spark: SparkSession, root: Path, *, first: bool) -> dict[str, object]:
    trial = Trial(spark, root)
    if not first:
        trial.feed()
        trial.run()
    trial.feed(files=2)
    trial.cut()
    begun = trial.batches("offsets")
    writer = trial.writer().trigger(processingTime="7 seconds")
    trial.ensure(trial.uri, 3, writer)
    outcome = {"begun": begun, "committed": trial.batches("commits"), "trigger": str(_trigger(writer))}
    trial.run()
    return {**outcome, "partitions": trial.partitions(), "values": sorted(set(trial.counts().values()))}


def _trigger(writer: DataStreamWriter) -> Any:
    trigger = writer._jwrite.getClass().getDeclaredField("trigger")
    trigger.setAccessible(True)
    return trigger.get(writer._jwrite)


def refusals(spark: SparkSession, root: Path) -> Iterator[tuple[str, dict[str, object]]]:
    trials = {kind: Trial(spark, root / kind, kind) for kind in ("count", "total", "first", "stateless")}
    for trial in trials.values():
        trial.feed()
        trial.run()
    yield "zero", trials["count"].refused(0)
    yield "same", trials["count"].refused(PARTITIONS)
    spark.conf.set(FORMAT, "2")
    yield "format", trials["count"].refused(5)
    spark.conf.unset(FORMAT)
    yield "keyless", trials["total"].refused(5)
    yield "operator", trials["first"].refused(5)
    yield "another", Trial(spark, root / "count", "distinct").refused(5)
    yield "stateless", trials["stateless"].refused(5)
    yield "new", Trial(spark, root / "count", checkpoint="new").refused(5)
    escaped = Trial(spark, root / "count", checkpoint="late%20checkpoint")
    escaped.run()
    yield "escaped", escaped.refused(5)
    spark.conf.set(PROVIDER, HDFS)
    other = Trial(spark, root / "count", checkpoint="hdfs")
    other.run()
    spark.conf.set(PROVIDER, ROCKSDB)
    yield "provider", other.refused(5, while_running=True)
    newest = trials["count"].checkpoint / "offsets" / "0"
    newest.write_text(newest.read_text().replace("v1", "v99", 1))
    newest.with_name(".0.crc").unlink()
    yield "newer", trials["count"].refused(5)


def failed(spark: SparkSession, root: Path) -> dict[str, object]:
    """A repartition that fails when it reads the state, and the same query on the repaired checkpoint."""
    trial = Trial(spark, root)
    for _ in range(2):
        trial.feed()
        trial.run()
    (state,) = (trial.checkpoint / "state/0/1").glob("2.changelog")
    sums = [
        state.with_name(f".{state.name}.crc"),
        state.with_name(f"{state.name}.crc"),
        state.with_name(f".{state.name}.crc.crc"),
    ]
    sound = {file: file.read_bytes() for file in (state, *sums) if file.exists()}
    for file in sound:
        file.unlink()
    state.write_bytes(sound[state][: len(sound[state]) // 2])
    before, message = sorted(trial.checkpoint.rglob("*")), ""
    try:
        trial.ensure(trial.uri, 3, trial.writer())
    except RepartitionError as error:
        message = str(error)
    after = sorted(trial.checkpoint.rglob("*"))
    for file, content in sound.items():
        file.write_bytes(content)
    trial.feed()
    trial.ensure(trial.uri, 3, trial.writer())
    trial.run()
    values = sorted(set(trial.counts().values()))
    return {"message": message, "untouched": before == after, "partitions": trial.partitions(), "values": values}


MOMENTS: dict[str, tuple[Callable[[Path, int], bool], int]] = {
    # when it is killed, on its way to 4 partitions, and to how many it is to go on
    "begun": (lambda checkpoint, batch: (checkpoint / "offsets" / str(batch)).exists(), 3),
    "rewriting": (lambda checkpoint, batch: any(checkpoint.glob(f"state/0/*/{batch + 1}.zip")), 4),
    "rewritten": (lambda checkpoint, batch: len(list(checkpoint.glob(f"state/0/*/{batch + 1}.zip"))) == 4, PARTITIONS),
}


def killed(spark: SparkSession, root: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Repartitions by processes that are killed; the same input and the same beginning for each."""
    beginning = Trial(spark, root)
    beginning.feed(keys=2000)
    beginning.run()
    trials = {moment: Trial(spark, root, checkpoint=moment) for moment in MOMENTS}
    for moment, trial in trials.items():
        for suffix in ("", " out"):
            shutil.copytree(f"{beginning.checkpoint}{suffix}", f"{trial.checkpoint}{suffix}")
        kill_when(partial(MOMENTS[moment][0], trial.checkpoint, 1), trial, 4)
    beginning.feed(keys=2000)
    for moment, trial in trials.items():
        left = {"begun": trial.batches("offsets"), "committed": trial.batches("commits")}
        wanted = MOMENTS[moment][1]
        trial.ensure(trial.uri, wanted, trial.writer())
        trial.ensure(trial.uri, wanted, trial.writer())
        trial.run()
        values = Counter(trial.counts().values())
        yield moment, {**left, "wanted": wanted, "partitions": trial.partitions(), "values": dict(values)}


def kill_when(condition: Callable[[], bool], trial: Trial, partitions: int) -> None:
    arguments = [sys.executable, __file__, str(trial.root), trial.checkpoint.name, str(partitions)]
    victim = subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: condition() or victim.poll() is not None, TIMEOUT_S, "the moment to kill", interval_s=0.002)
    finally:
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()


PARTS: dict[str, Callable[[SparkSession, Path], dict[str, Any]]] = {
    "moved": lambda spark, root: {kind: moved(spark, root / kind, kind) for kind in ("count", "distinct", "join")},
    "operators": lambda spark, root: {
        kind: operators(spark, root / kind, kind)
        for kind in ("count", "session", "distinct", "recent", "join", "stateless")
    },
    "cut": lambda spark, root: {name: cut(spark, root / name, first=name == "first") for name in ("first", "later")},
    "refused": lambda spark, root: dict(refusals(spark, root)),
    "failed": failed,
    "killed": lambda spark, root: dict(killed(spark, root)),
}


def main(root: Path) -> None:
    spark = session()
    found = {name: part(spark, root / name) for name, part in PARTS.items()}
    (root / RESULT).write_text(json.dumps(found))
    spark.stop()


def be_killed(root: Path, checkpoint: str, partitions: int) -> None:
    trial = Trial(session(), root, checkpoint=checkpoint)
    trial.ensure(trial.uri, partitions, trial.writer())


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        be_killed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
