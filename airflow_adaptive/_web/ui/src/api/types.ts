/** Response bodies of the REST API (`airflow_adaptive/_web/api`): the fields that the page reads. */

import type { Query } from "./sources";

export type Counts = Record<string, number>;

export interface Range {
  lower: number;
  upper: number;
}

export interface Transition {
  at: string;
  source: string;
  target: string;
  version: number;
  before: Counts | null;
  after: Counts | null;
  tier: number | null;
  reason_code: string;
  reason: string;
}

export interface Decision {
  at: string;
  state: string;
  reason_code: string;
  reason: string;
}

export interface Timeline {
  transitions: Transition[];
  decisions: Decision[];
}

export interface TaskInstance {
  dag_id: string;
  task_id: string;
  run_id: string;
  map_index: number;
}

export interface Urls {
  master: string | null;
  driver: string | null;
  executors: string | null;
  stdout: string | null;
  stderr: string | null;
}

export interface CurrentMetrics {
  at: number;
  slots: number;
  lower: number;
  upper: number;
  input: number | null;
  processed: number | null;
  batch_ms: number | null;
  backlog: number | null;
  lag_s: number | null;
}

/** The source of the active bounds. */
export interface RequirementsSource {
  origin: string;
  name: string;
  via: string | null;
  since: string | null;
  until: string | null;
  reason: string;
}

export interface Advice {
  at: string;
  since: string;
  bounds: Record<string, Range>;
  source: string;
  reason: string;
  next_at: string | null;
}

export interface Policy {
  kind: string;
  dry_run: boolean;
  active: boolean;
  advice: Advice | null;
  problem: string | null;
}

export interface JobItem {
  job: string;
  job_type: string;
  state: string;
  since: string | null;
  outcome: string | null;
  cause: string | null;
  parallelism: Counts | null;
  requirements: Record<string, Range>;
  slots: { held: number; available: number } | null;
  restarts: number;
  rescales: number;
  failures: number;
  lag_alert: { since: string; lag_s: number; expires_at: string | null } | null;
  lag_unknown_since: string | null;
  source_problem: string | null;
  last_transition: Transition | null;
  urls: Urls;
  attempt: string | null;
  task: TaskInstance | null;
  dag_ids: string[];
  desired_state: string | null;
  published_at: string | null;
  stale: boolean;
  abandoned: boolean;
  metrics: CurrentMetrics | null;
  requirements_source: RequirementsSource | null;
  problem: string | null;
}

export interface JobCollection {
  jobs: JobItem[];
  total_entries: number;
  problem: string | null;
}

export interface Deadline {
  name: string;
  due: string;
}

export interface Vertex {
  name: string;
  lower: number;
  upper: number;
  max_parallelism: number;
  stateful: boolean;
  slot_sharing_group: string;
  inputs: string[];
}

export interface RequestRecord {
  by: string;
  at: string;
  via: string;
  until: string | null;
}

export interface JobDetails extends JobItem {
  requesters: Record<string, RequestRecord>;
  policy: Policy | null;
  editable: boolean | null;
  reactive: boolean | null;
  pending_requirements: Record<string, Range> | null;
  deadlines: Deadline[];
  waiting: { phase: string; cooldown_ends: string; first_change: string | null } | null;
  backoff: { seconds: number; ends: string | null } | null;
  vertices: Vertex[];
  options: Record<string, unknown>;
}

export interface Bounds {
  lowerBound: number;
  upperBound: number;
}

export type Requirements = Record<string, { parallelism: Bounds }>;

export interface Preview {
  consequence: string;
  reason: string;
  requirements: Requirements;
  before: Counts | null;
  after: Counts | null;
  tier: string | null;
  cooldown_until: string | null;
  at: string | null;
  slots: { available: number; minimum: number; maximum: number; missing: number };
  decisions: Decision[];
}

export interface PlannedVertex {
  name: string;
  planned: number | null;
  effective: number | null;
  lower: number;
  upper: number;
  max_parallelism: number;
  slot_sharing_group: string;
  stateful: boolean;
}

export interface Subtask {
  vertex: string;
  index: number;
}

export interface PlannedWorker {
  worker: string;
  address: string;
  slots: Subtask[][] | null;
  slot_count: number;
  load: number;
}

export interface Plan {
  version: number | null;
  reported_at: string | null;
  load_balance_mode: string;
  vertices: PlannedVertex[];
  slots: {
    planned: number | null;
    kept: number | null;
    held: number;
    available: number;
    minimum: number;
    maximum: number;
  };
  executors: { executor_id: string; cores: number; worker: string }[];
  queries: Query[];
  workers: PlannedWorker[];
  imbalance: number | null;
}

export interface Metrics {
  step: number;
  columns: string[];
  points: (number | string | null)[][];
}

export interface Failure {
  error_class: string;
  message: string;
  causes: string[];
}

export interface FailureEntry {
  at: string;
  state: string;
  failure: Failure;
  decision: string;
  concurrent: Failure[];
}

export interface Failures {
  failures: FailureEntry[];
  total_entries: number;
}

export interface Amounts {
  desired: Counts;
  sufficient: Counts;
  before: Counts | null;
  after: Counts | null;
}

export interface StateSpan {
  state: string;
  entered: string;
  left: string;
}

export interface Rescale {
  number: number;
  attempt: number;
  trigger_cause: string;
  start: string;
  vertices: Amounts;
  states: StateSpan[];
  tier: number | null;
  downtime: number | null;
  failure: string | null;
  end: string | null;
  terminated_reason: string | null;
  terminal_state: string | null;
}

export interface Rescales {
  rescales: Rescale[];
}

export interface Durations {
  max: number;
  p50: number;
  p95: number;
}

export interface RescaleSummary {
  completed: number;
  ignored: number;
  failed: number;
  in_progress: number;
  completed_duration: Durations | null;
  downtime: Durations | null;
}
