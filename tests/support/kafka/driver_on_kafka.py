"""A job that reads Kafka, and its drivers on the embedded cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_adaptive.job.protocol.documents import Action, DriverStatus
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import DriverOnCluster, plan
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import connector_jars

# The script reads the options of its source from a file. A batch of `slow` takes as long as the file `pause` says.
SCRIPT = """
import json, pathlib, sys, time
from airflow_adaptive.job import AdaptiveJob

directory = pathlib.Path(sys.argv[1])

def wait(batch, number):
    batch.write.mode("append").format("noop").save()
    while (directory / "pause").exists():
        time.sleep(0.1)

def records(spark, parallelism):
    options = json.loads((directory / "options.json").read_text())
    stream = spark.readStream.format("kafka").options(**options).load()
    return stream.writeStream.foreachBatch(wait).trigger(processingTime="1 second")

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

    def start(self, options: Mapping[str, str] | None = None) -> None:
        """Submit a driver whose source has these options in addition."""
        given = {**self.kafka.sasl_options, "subscribe": self.topic, "startingOffsets": "earliest", **(options or {})}
        (self.root / "options.json").write_text(json.dumps(given))
        self.driver.direct(Action.RUN, 1, plan(1))
        self.driver.submit(SCRIPT, executors=1, conf={"spark.jars": ",".join(map(str, connector_jars()))})

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
