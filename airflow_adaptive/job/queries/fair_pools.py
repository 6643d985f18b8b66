"""The share of each query in the executors' slots: FAIR pools, as Spark has them within an application.

Pools *share*: slots that one query leaves free are used by the others, and a query that has less than its share gets the
next slot that falls free. No task is stopped for that, and no slot belongs to a query: `minShare`, a floor, stays 0.

Reaches into the JVM: `org.apache.spark.scheduler.Pool` under the `rootPool` of the task scheduler. Its weight is fixed, so a
pool is replaced by one of the same name when its weight is to be another. Each stage looks its pool up by name when it is
submitted: so what runs goes on in the old one, and what comes goes into the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.jvm import java_class

POOL: Final = "spark.scheduler.pool"
"""Local property of a thread; the thread of a query has that of the thread which started it."""

DEFAULT: Final = "default"
"""The pool of what names none (`FairSchedulableBuilder`)."""

MIN_SHARE: Final = 0
"""`minShare` of a pool."""


class FairPools:
    """The pools of one session's queries; there are none for a single query."""

    def __init__(self, spark: SparkSession) -> None:
        """There is none yet."""
        self._spark = spark
        self._context = spark.sparkContext
        self._pools: dict[str, Any] = {}
        self._retired: list[Any] = []

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Give each query a pool of its name and weight; a single one stays in the pool that is there without us.

        Args:
            weights: of all queries of the job, by name; less than 1 counts as 1.
        """
        self._remove_retired()
        if len(weights) > 1:
            for name, weight in weights.items():
                self._set_weight(name, max(1, weight))

    def use(self, name: str) -> None:
        """Queries that this thread starts from now on run in the pool of that name, if there is one."""
        self._context.setLocalProperty(POOL, name if name in self._pools else DEFAULT)

    def use_default(self) -> None:
        """What this thread does from now on belongs to no query."""
        self._context.setLocalProperty(POOL, DEFAULT)

    def _set_weight(self, name: str, weight: int) -> None:
        old = self._pools.get(name)
        if old is not None and old.weight() == weight:
            return
        fair = java_class(self._spark, "org.apache.spark.scheduler.SchedulingMode").FAIR()
        pool = java_class(self._spark, "org.apache.spark.scheduler.Pool")(name, fair, MIN_SHARE, weight)
        self._root().addSchedulable(pool)  # the name is its own from now on
        self._pools[name] = pool
        if old is not None:
            self._retired.append(old)

    def _remove_retired(self) -> None:
        """Those without a stage; past `removeSchedulable`, which would take the name from their successor."""
        for pool in [pool for pool in self._retired if pool.schedulableQueue().isEmpty()]:
            self._root().schedulableQueue().remove(pool)
            self._retired.remove(pool)

    def _root(self) -> Any:
        return self._context._jsc.sc().taskScheduler().rootPool()
