"""Determines which stateful operators a query would have, before the query starts.

Spark compares the operators with those of the checkpoint when it plans the first batch (`IncrementalExecution`,
`STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA`). That is too late if the driver changes the state before the
start. Only the explained plan shows the operators earlier, with the number of the state of each operator.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.spark_internals import describe_plan

WITH_STATE: Final = re.compile(r"(\w+) .*\bstate info \[.*?\bopId = (\d+)")
"""A line of an explained plan: name and number of an operator that reads or writes state."""

READERS: Final = frozenset({"StateStoreRestore", "SessionWindowStateStoreRestore"})
"""Operators that belong to a writer with the same number."""

LIMIT: Final = "globalLimit"

KINDS: Final = {
    "StateStoreSave": "stateStoreSave",
    "SessionWindowStateStoreSave": "sessionWindowStateStoreSaveExec",
    "StreamingDeduplicate": "dedupe",
    "StreamingDeduplicateWithinWatermark": "dedupeWithinWatermark",
    "StreamingSymmetricHashJoin": "symmetricHashJoin",
    "StreamingGlobalLimit": LIMIT,
}
"""Name of an operator in a plan -> name in a checkpoint (`StatefulOperator.shortName`). Other operators are not
compared."""

KNOWN: Final = frozenset(KINDS.values())


def planned_operators(spark: SparkSession, writer: DataStreamWriter) -> list[str] | None:
    """Return the names that a checkpoint of the query would give its stateful operators, in the order of their numbers.

    The result contains no limits: whether a limit is stateful depends on the output mode, which an explained plan does
    not contain.

    Args:
        spark: session of the driver.
        writer: writer of the query.

    Returns:
        The names, or None if they are unknown: Spark cannot explain the query, or the query has an unknown operator.
    """
    try:
        execution = writer._df._jdf.queryExecution()
        plan = describe_plan(spark, execution)
    except (Py4JJavaError, PySparkException):
        return None
    return operators_of(plan)


def operators_of(plan: str) -> list[str] | None:
    """Return the same from the text of an explained plan."""
    found = sorted({(int(number), name) for name, number in WITH_STATE.findall(plan) if name not in READERS})
    kinds = [KINDS.get(name) for _, name in found]
    return None if None in kinds else [kind for kind in kinds if kind is not None and kind != LIMIT]
