/** Queries and their sources in the response bodies of the REST API: the fields that the page reads. */

/** A source of a query. Without a number of partitions, the source does not count rows. */
export interface Source {
  kind: string;
  partitions: number | null;
  lag_rows: number | null;
  unread_files: number | null;
  unread_versions: number | null;
  lag_s: number | null;
  is_lag_minimum: boolean;
  skew: number | null;
  worst_partition: string | null;
  input_limit: number | null;
}

/** Latency of the rows of the newest batch with rows, in milliseconds. */
export interface Latency {
  rows: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  max_ms: number;
}

export interface Query {
  name: string;
  shuffle: string | null;
  event_time_delay_s: number | null;
  sources: Source[];
  sink: string | null;
  latency: Latency | null;
}
