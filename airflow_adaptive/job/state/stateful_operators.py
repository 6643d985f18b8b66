"""Which stateful operators a query would have that has not been started.

Spark compares them with those of the checkpoint when it plans the first batch (`IncrementalExecution`,
`STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA`), which is too late for who would change the state before.
What it will plan it tells in the explained plan alone: there each operator has the number of its state.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.jvm import java_class

PYTHON_SQL: Final = "org.apache.spark.sql.api.python.PythonSQLUtils"

WITH_STATE: Final = re.compile(r"(\w+) .*\bstate info \[.*?\bopId = (\d+)")
"""A line of an explained plan: name and number of an operator that reads or writes state."""

READERS: Final = frozenset({"StateStoreRestore", "SessionWindowStateStoreRestore"})
"""They belong to a writer of the same number."""

LIMIT: Final = "globalLimit"

KINDS: Final = {
    "StateStoreSave": "stateStoreSave",
    "SessionWindowStateStoreSave": "sessionWindowStateStoreSaveExec",
    "StreamingDeduplicate": "dedupe",
    "StreamingDeduplicateWithinWatermark": "dedupeWithinWatermark",
    "StreamingSymmetricHashJoin": "symmetricHashJoin",
    "StreamingGlobalLimit": LIMIT,
}
"""What an operator is called in a plan -> in a checkpoint (`StatefulOperator.shortName`). Others are not judged."""

KNOWN: Final = frozenset(KINDS.values())


def planned_operators(spark: SparkSession, writer: DataStreamWriter) -> list[str] | None:
    """What a checkpoint of the query would call its stateful operators, in the order of their numbers.

    Without limits: whether they keep state depends on the output mode, which an explained plan does not know.

    Args:
        spark: the session.
        writer: of the query.

    Returns:
        None if that can't be told: Spark does not explain the query, or has an operator that is not known here.
    """
    try:
        execution = writer._df._jdf.queryExecution()
        plan = str(java_class(spark, PYTHON_SQL).explainString(execution, "simple"))
    except (Py4JJavaError, PySparkException):
        return None
    return operators_of(plan)


def operators_of(plan: str) -> list[str] | None:
    """The same from the text of an explained plan."""
    found = sorted({(int(number), name) for name, number in WITH_STATE.findall(plan) if name not in READERS})
    kinds = [KINDS.get(name) for _, name in found]
    return None if None in kinds else [kind for kind in kinds if kind is not None and kind != LIMIT]
