"""The queries on Flink: `flink run -py flink_job.py -- <connector> <servers> <topic of the events> <topic of the results> <query>`."""

import sys

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

connector, servers, source, sink, query = sys.argv[1:]
table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
table.get_config().set("pipeline.jars", f"file://{connector}")
table.get_config().set("table.local-time-zone", "UTC")
kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json'"
table.execute_sql(
    "CREATE TABLE events (kind STRING, id BIGINT, `at` BIGINT, `of` BIGINT, ts AS TO_TIMESTAMP_LTZ(`at`, 3),"
    " WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)"
    f" WITH ({kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset', 'properties.group.id' = 'nexmark')"
)
table.execute_sql(f"CREATE TABLE results (id BIGINT, num BIGINT, `at` BIGINT) WITH ({kafka}, 'topic' = '{sink}')")
for kind in ("person", "auction", "bid"):
    table.execute_sql(f"CREATE TEMPORARY VIEW {kind} AS SELECT id, `at`, `of`, ts FROM events WHERE kind = '{kind}'")

END = "1000 * UNIX_TIMESTAMP(DATE_FORMAT(window_end, 'yyyy-MM-dd HH:mm:ss'))"
WINDOW = "window_start, window_end"
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
COUNTS = (
    f"SELECT {WINDOW}, `of`, COUNT(*) AS num FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
    f" GROUP BY {WINDOW}, `of`"
)
QUERIES = {
    "q0": "SELECT id, CAST(0 AS BIGINT), `at` FROM bid",
    "q5": f"SELECT `of`, num, {END} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {WINDOW} ORDER BY num DESC, `of` DESC) AS place"
    f" FROM ({COUNTS})) WHERE place = 1",
    "q8": f"SELECT id, CAST(0 AS BIGINT), {END.replace('window_end', 'P.window_end')}"
    f" FROM (SELECT id, {WINDOW} FROM {TUMBLE.format('person')} GROUP BY id, {WINDOW}) P"
    f" JOIN (SELECT `of`, {WINDOW} FROM {TUMBLE.format('auction')} GROUP BY `of`, {WINDOW}) A"
    " ON P.id = A.`of` AND P.window_start = A.window_start AND P.window_end = A.window_end",
}
table.execute_sql(f"INSERT INTO results {QUERIES[query]}")
