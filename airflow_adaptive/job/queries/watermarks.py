"""Keeps the watermark of each operator of a query over its runs in one driver.

Theory: a query with several watermarks advances to the smallest of them (`spark.sql.streaming.multipleWatermarkPolicy`), and its checkpoint
contains only this one. After a restart, Spark knows no watermark of an operator until its source has new data, and counts it as 0. If the
sources have data at different times and the query restarts between them, the watermark never advances. Therefore a new run of the same
queries continues with the watermarks of the last one. A late restoration does no harm, because watermarks only increase.

The module uses `watermarkTracker`, `logicalPlan` and `awaitProgressLock` of `MicroBatchExecution`, and `operatorToWatermarkMap` of
`WatermarkTracker` of the JVM.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_adaptive.job.spark_internals import from_scala, java_class, private_field

log = logging.getLogger(__name__)

OPERATOR: Final = "EventTimeWatermark"

TIME_UNIT: Final = "java.util.concurrent.TimeUnit"

CHECK_INTERVAL_S: Final = 0.01

LOCK_TIMEOUT_MS: Final = 1000
"""The thread of the query holds the lock only while it logs offsets or a commit."""


class OperatorWatermarks:
    """The watermarks of the operators of one query, in the order of its plan."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: Sequence[Any] = ()
        """The `Option[Long]` of each operator at the end of the last run, until the new run has it."""

    def keep(self, execution: Any) -> None:
        """Keep the watermarks of a run that has ended. Without two watermarks, the checkpoint contains all of them."""
        try:
            tracker = execution.watermarkTracker()
            if tracker is None or self._kept:  # the run ended before it had the watermarks of the run before it
                return
            known, nodes = tracker.watermarkMap(), self._nodes(execution)
            self._kept = [known.apply(node) for node in nodes] if len(nodes) > 1 else ()
        except Py4JError as error:  # not a micro-batch query, or a Spark version with different internals
            log.warning("the watermarks of the query are not kept: %s", error)

    def restore(self, execution: Any, timeout_s: float = 0.0) -> None:
        """Continue with the kept watermarks in a new run, as soon as the run has a tracker; wait for the tracker up to the timeout."""
        if not self._kept:
            return
        deadline = time.monotonic() + timeout_s
        try:
            while (tracker := execution.watermarkTracker()) is None and time.monotonic() < deadline:
                time.sleep(CHECK_INTERVAL_S)
            lock, milliseconds = execution.awaitProgressLock(), java_class(self._spark, TIME_UNIT).MILLISECONDS
            if tracker is None or not lock.tryLock(LOCK_TIMEOUT_MS, milliseconds):
                return
            try:
                self._raise_watermarks(tracker, self._nodes(execution))
            finally:
                lock.unlock()
        except Py4JError as error:
            log.warning("the watermarks of the query are not restored: %s", error)
        self._kept = ()

    def _raise_watermarks(self, tracker: Any, nodes: Sequence[Any]) -> None:
        watermarks = private_field(tracker, "operatorToWatermarkMap")
        if len(nodes) != len(self._kept):
            log.warning(
                "the query has %s watermarks and had %s before: they are not restored", len(nodes), len(self._kept)
            )
            return
        for node, kept in zip(nodes, self._kept, strict=True):
            watermarks.put(node, _later(watermarks.apply(node), kept))

    def _nodes(self, execution: Any) -> list[Any]:
        """Return the identities of the operators that have a watermark, each once."""
        found = {str(node): node for node in self._operators(execution.logicalPlan())}
        return list(found.values())

    def _operators(self, plan: Any) -> Iterator[Any]:
        for child in from_scala(self._spark, plan.children()):
            yield from self._operators(child)
        if plan.getClass().getSimpleName() == OPERATOR:
            yield plan.nodeId()


def _later(one: Any, other: Any) -> Any:
    """Return the later of two watermarks (`Option[Long]`)."""
    if one.isDefined() and other.isDefined():
        return one if one.get() >= other.get() else other
    return one if one.isDefined() else other
