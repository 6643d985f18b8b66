/** The order of the jobs in a list. */
import type { JobItem } from "../../api/types";
import { total } from "../format/parallelism";
import { healthOf } from "./health";

/** The palettes of the health, the worst first. The REST API sorts by the health itself, which keeps this order. */
const SEVERITY = ["red", "orange", "yellow", "gray", "green"];

/** Column -> value by which it sorts, the largest first. Unknown values are last. */
export const SORTED: Record<string, (job: JobItem) => number | null | undefined> = {
  Health: (job) => -SEVERITY.indexOf(healthOf(job).color),
  Parallelism: (job) => total(job.parallelism),
  Lag: (job) => job.metrics?.lag_s,
  "Rows in": (job) => job.metrics?.input,
  Processed: (job) => job.metrics?.processed,
  Backlog: (job) => job.metrics?.backlog ?? job.metrics?.unread_files,
  Failures: (job) => job.failures,
};

/** Column -> parameter `order_by` of the REST API. */
export const ORDER_BY: Record<string, string> = {
  Health: "health",
  Parallelism: "-parallelism",
  Lag: "-lag_s",
  "Rows in": "-input",
  Processed: "-processed",
  Backlog: "-backlog",
  Failures: "-failures",
};

/** The jobs sorted by a column, by name within equal values; in their order for any other column. */
export const sortedBy = (jobs: JobItem[], column: string | null): JobItem[] => {
  const value = SORTED[column ?? ""];
  if (value === undefined) return jobs;
  const key = (job: JobItem) => value(job) ?? Number.NEGATIVE_INFINITY;
  return [...jobs].sort((one, other) => compare(key(other), key(one)));
};

const compare = (one: number, other: number): number => (one === other ? 0 : one - other);
