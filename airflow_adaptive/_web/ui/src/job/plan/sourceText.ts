import type { Query, Source } from "../../api/types";
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

const amount = (number: number, what: string): string => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** The unread rows of a source that counts rows, the unread files, or the unread commits of a table. */
export const unreadText = ({
  lag_rows: rows,
  unread_files: files,
  unread_versions: commits,
}: Source): string => {
  if (rows !== null) return amount(rows, "row");
  if (files !== null) return amount(files, "file");
  return commits === null ? "–" : amount(commits, "commit");
};

/** The age of the oldest unread row, file or commit. */
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
