"""The share of each query in the slots of the executors: Spark's FAIR pools within an application.

Pools share slots: other queries use the slots that a query leaves free, and a query below its share gets the next free
slot. Spark stops no task for a share, and no query owns a slot, because the minimum share (`minShare`) is 0.

The module uses the JVM: `org.apache.spark.scheduler.Pool` under the `rootPool` of the task scheduler. The weight of a
pool is fixed, so a pool with another weight of the same name replaces it. Each stage looks up its pool by name when it
is submitted: running stages stay in the old pool, and new stages use the new pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.spark_internals import spark_class

POOL: Final = "spark.scheduler.pool"
"""Local property of a thread. The thread of a query inherits the property from the thread that started the query."""

DEFAULT: Final = "default"
"""The pool of threads without a pool (`FairSchedulableBuilder`)."""

MIN_SHARE: Final = 0
"""`minShare` of a pool."""


class FairPools:
    """The pools of the queries of one session; a single query has no pool."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._pools: dict[str, Any] = {}
        self._retired: list[Any] = []

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Give each query a pool of its name and weight. A single query stays in the default pool.

        Args:
            weights: weights of all queries of the job, by name; a weight below 1 counts as 1.
        """
        self._remove_retired()
        if len(weights) > 1:
            for name, weight in weights.items():
                self._set_weight(name, max(1, weight))

    def use(self, name: str) -> None:
        """Run the queries that this thread starts from now on in the pool of that name, if it exists."""
        self._context.setLocalProperty(POOL, name if name in self._pools else DEFAULT)

    def use_default(self) -> None:
        """Let this thread use the default pool from now on."""
        self._context.setLocalProperty(POOL, DEFAULT)

    def _set_weight(self, name: str, weight: int) -> None:
        old = self._pools.get(name)
        if old is not None and old.weight() == weight:
            return
        fair = spark_class(self._spark, "SchedulingMode").FAIR()
        pool = spark_class(self._spark, "Pool")(name, fair, MIN_SHARE, weight)
        self._root().addSchedulable(pool)  # the new pool replaces the old one under this name
        self._pools[name] = pool
        if old is not None:
            self._retired.append(old)

    def _remove_retired(self) -> None:
        """Remove retired pools without stages.

        `removeSchedulable` would also remove the name of their successor.
        """
        for pool in [pool for pool in self._retired if pool.schedulableQueue().isEmpty()]:
            self._root().schedulableQueue().remove(pool)
            self._retired.remove(pool)

    def _root(self) -> Any:
        return self._context._jsc.sc().taskScheduler().rootPool()
