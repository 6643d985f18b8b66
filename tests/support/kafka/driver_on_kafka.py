"""A job that reads Kafka, and its drivers on the embedded cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_adaptive._core.protocol.documents import Action, DriverStatus
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import DriverOnCluster, plan
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import connector_jars

# The script reads the options of its sources from a file, and the password from the environment. Other brokers need no password. A batch writes its records to a folder of
# its own, which a repetition of the batch overwrites, and to another topic if there is one. It takes as long as the file `pause` exists.
SCRIPT = """
import json, os, pathlib, sys, time
from airflow_adaptive.job import AdaptiveJob

directory = pathlib.Path(sys.argv[1])
options = json.loads((directory / "options.json").read_text())
login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
login += f' username="tests" password="{os.environ["KAFKA_PASSWORD"]}";'
broker = {**options["broker"], "kafka.sasl.jaas.config": login}

def write(batch, number):
    batch.selectExpr("CAST(value AS STRING) AS value").write.mode("overwrite").json(f"{directory}/out/{number}")
    if options["sink"]:
        rows = batch.selectExpr("concat_ws('-', topic, partition, offset) AS key", "value")
        rows.write.format("kafka").options(**broker).option("topic", options["sink"]).save()
    while (directory / "pause").exists():
        time.sleep(0.1)

def records(spark, parallelism):
    stream = spark.readStream.format("kafka").options(**broker, **options["source"]).load()
    for other in options.get("others", ()):
        stream = stream.union(spark.readStream.format("kafka").options(**other, **options["source"]).load())
    return stream.writeStream.foreachBatch(write).trigger(processingTime="1 second")

AdaptiveJob(records).run()
"""


@dataclass
class DriverOnKafka:
    """One job that reads one topic."""

    driver: DriverOnCluster
    kafka: KafkaCluster
    topic: str
    root: Path

    @classmethod
    def create(cls, cluster: LocalCluster, kafka: KafkaCluster, topic: str, root: Path) -> DriverOnKafka:
        """Add a worker that has room for a driver and an executor."""
        cluster.add_worker(cores=2, memory_mb=1536)
        return cls(DriverOnCluster(cluster, root), kafka, topic, root)

    def start(
        self,
        *,
        password: str | None = None,
        sink: str | None = None,
        broker: Mapping[str, str] | None = None,
        others: Sequence[str] = (),
        source: Mapping[str, str] | None = None,
    ) -> None:
        """Submit a driver.

        Args:
            password: password of the driver; without it, the right one.
            sink: topic to which the job writes the records, too.
            broker: options that differ from those of the brokers.
            others: servers of other clusters from which the job reads the topic, too.
            source: other options of the sources.
        """
        options = {
            "broker": {**self.kafka.sasl_options, **(broker or {})},
            "source": {"subscribe": self.topic, "startingOffsets": "earliest", **(source or {})},
            "sink": sink,
            "others": [{"kafka.bootstrap.servers": servers} for servers in others],
        }
        (self.root / "options.json").write_text(json.dumps(options))
        self.driver.direct(Action.RUN, 1, plan(1))
        self.driver.submit(
            SCRIPT,
            executors=1,
            conf={"spark.jars": ",".join(map(str, connector_jars()))},
            secret_env={"KAFKA_PASSWORD": password or self.kafka.password},
        )

    def restart(self, *, sink: str | None = None, source: Mapping[str, str] | None = None) -> None:
        """Submit a driver with the next epoch, after the last driver has ended."""
        self.driver.epoch += 1
        self.start(sink=sink, source=source)

    def kill(self) -> None:
        """Kill all processes of the driver."""
        for process in self.driver.processes():
            process.kill()
        self.driver.wait_end()

    def values(self) -> list[str]:
        """Return the values of all records that the batches have written, sorted."""
        files = (self.root / "out").glob("*/*.json")
        return sorted(json.loads(line)["value"] for file in files for line in file.read_text().splitlines())

    def pause(self) -> None:
        """Let the next batch wait after its work."""
        (self.root / "pause").touch()

    def resume(self) -> None:
        """Let batches end."""
        (self.root / "pause").unlink()

    def stop(self) -> None:
        """End the driver at a batch boundary."""
        self.driver.direct(Action.STOP, 1)
        self.driver.wait_end()


def source_of(status: DriverStatus) -> SourceReport | None:
    """Return the only source of the only query, None before it is reported."""
    return next((source for query in status.queries for source in query.sources), None)
