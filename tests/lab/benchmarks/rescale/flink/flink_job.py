"""Counts records by key on Flink: `flink run -py flink_job.py -- <input> <output>`.

A running count per key, one row for each record: what a file sink, which can't take a row back, can hold exactly once.
"""

import sys

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

source, sink = sys.argv[1:]
table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
table.execute_sql(
    f"CREATE TABLE records (k INT, f INT, came AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'file://{source}',"
    " 'format' = 'csv', 'source.monitor-interval' = '100 ms')"
)
table.execute_sql(
    f"CREATE TABLE counts (k INT, n BIGINT, f INT) WITH ('connector' = 'filesystem', 'path' = 'file://{sink}',"
    " 'format' = 'csv', 'sink.rolling-policy.rollover-interval' = '100 ms', 'sink.rolling-policy.check-interval' = '100 ms')"
)
table.execute_sql(
    "INSERT INTO counts SELECT k, COUNT(*) OVER"
    " (PARTITION BY k ORDER BY came ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), f FROM records"
)
