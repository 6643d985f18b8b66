import type { Query, Source } from "../../api/sources";
import { count, duration, exact } from "../../lib/format/format";

/** The number of tasks that can read a source, and what it means for the slots of the job. */
export const limitText = (source: Source, shuffle: string | null): string => {
  const { input_limit: limit, partitions } = source;
  if (limit === null) return "–";
  const what = limit === partitions ? "partition" : "task";
  const tasks = `${exact(limit)} ${what}${limit === 1 ? "" : "s"}`;
  if (shuffle !== "none") return tasks;
  return `${tasks}: more than ${exact(limit)} slot${limit === 1 ? "" : "s"} would idle`;
};

/** The unread rows of a source that counts rows, or the unread files. */
export const unreadText = ({ lag_rows: rows, unread_files: files }: Source): string => {
  if (rows !== null) return `${count(rows)} row${rows === 1 ? "" : "s"}`;
  return files === null ? "–" : `${count(files)} file${files === 1 ? "" : "s"}`;
};

/** The age of the oldest unread row or file. */
export const lagText = ({ lag_s: lag, is_lag_minimum: isMinimum }: Source): string =>
  `${isMinimum ? "at least " : ""}${duration(lag)}`;

/** The latency of the rows of the newest batch, if the script measures it. */
export const latencyText = ({ name, latency }: Pick<Query, "name" | "latency">): string | null =>
  latency &&
  `${name} has a latency of ${exact(latency.p50_ms)} ms (p50), ${exact(latency.p95_ms)} ms (p95) and ` +
    `${exact(latency.p99_ms)} ms (p99), at most ${exact(latency.max_ms)} ms: ${exact(latency.rows)} rows of the newest batch.`;

/** What a sink guarantees, if it may repeat records. */
export const deliveryText = ({ name, sink }: Pick<Query, "name" | "sink">): string | null =>
  sink?.startsWith("Kafka")
    ? `${name} writes to Kafka at least once: a batch that is repeated after a failure writes its records again.`
    : null;
