/** Written by `python -m airflow_adaptive._web.ui.api_types` from the OpenAPI document of the REST API. */

export interface Advice {
  at: string;
  since: string;
  bounds: Record<string, Range>;
  source: string;
  reason: string;
  next_at: string | null;
}

export interface Amounts {
  desired: Record<string, number>;
  sufficient: Record<string, number>;
  before: Record<string, number> | null;
  after: Record<string, number> | null;
}

export interface Backoff {
  seconds: number;
  ends: string | null;
}

export interface Bounds {
  lowerBound: number;
  upperBound: number;
}

export type Consequence = "NOTHING" | "RESCALE" | "START" | "WAIT_FOR_SLOTS" | "STOP_AND_WAIT" | "LATER";

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

export interface Deadline {
  name: string;
  due: string;
}

export interface Decision {
  at: string;
  state: string;
  reason_code: string;
  reason: string;
}

export type DesiredState = "running" | "suspended" | "canceled";

export interface Durations {
  min: number;
  max: number;
  avg: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number;
  p999: number;
}

export interface Executor {
  executor_id: string;
  cores: number;
  worker: string;
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

export interface JobCollection {
  jobs: JobItem[];
  total_entries: number;
  problem: string | null;
}

export interface JobDetails {
  job_type: string;
  state: SchedulerStateName;
  since: string | null;
  outcome: string | null;
  cause: string | null;
  parallelism: Record<string, number> | null;
  requirements: Record<string, Range>;
  requirements_source: RequirementsSource | null;
  slots: Slots | null;
  restarts: number;
  rescales: number;
  failures: number;
  lag_alert: LagAlert | null;
  lag_unknown_since: string | null;
  source_problem: string | null;
  last_transition: Transition | null;
  urls: Urls;
  attempt: string | null;
  task: TaskInstance | null;
  job: string;
  dag_ids: string[];
  desired_state: DesiredState | null;
  published_at: string | null;
  stale: boolean;
  abandoned: boolean;
  metrics: CurrentMetrics | null;
  problem: string | null;
  requesters: Record<string, RequestRecord>;
  policy: Policy | null;
  editable: boolean | null;
  reactive: boolean | null;
  pending_requirements: Record<string, Range> | null;
  deadlines: Deadline[];
  waiting: Waiting | null;
  backoff: Backoff | null;
  vertices: Vertex[];
  options: Record<string, unknown>;
}

export interface JobItem {
  job_type: string;
  state: SchedulerStateName;
  since: string | null;
  outcome: string | null;
  cause: string | null;
  parallelism: Record<string, number> | null;
  requirements: Record<string, Range>;
  requirements_source: RequirementsSource | null;
  slots: Slots | null;
  restarts: number;
  rescales: number;
  failures: number;
  lag_alert: LagAlert | null;
  lag_unknown_since: string | null;
  source_problem: string | null;
  last_transition: Transition | null;
  urls: Urls;
  attempt: string | null;
  task: TaskInstance | null;
  job: string;
  dag_ids: string[];
  desired_state: DesiredState | null;
  published_at: string | null;
  stale: boolean;
  abandoned: boolean;
  metrics: CurrentMetrics | null;
  problem: string | null;
}

export interface LagAlert {
  since: string;
  lag_s: number;
  expires_at: string | null;
}

export interface Latency {
  rows: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  max_ms: number;
}

export interface Metrics {
  step: number;
  columns: string[];
  points: unknown[][];
}

export interface PartitionLag {
  partition: string;
  rows: number;
  seconds: number;
}

export interface Plan {
  version: number | null;
  reported_at: string | null;
  load_balance_mode: string;
  vertices: PlannedVertex[];
  slots: PlannedSlots;
  executors: Executor[];
  queries: Query[];
  workers: PlannedWorker[];
  imbalance: number | null;
}

export interface PlannedSlots {
  planned: number | null;
  kept: number | null;
  held: number;
  available: number;
  minimum: number;
  maximum: number;
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

export interface PlannedWorker {
  worker: string;
  address: string;
  slots: Subtask[][] | null;
  slot_count: number;
  load: number;
}

export interface Policy {
  kind: string;
  dry_run: boolean;
  active: boolean;
  advice: Advice | null;
  problem: string | null;
}

export interface Preview {
  consequence: Consequence;
  reason: string;
  requirements: Record<string, VertexRequirements>;
  before: Record<string, number> | null;
  after: Record<string, number> | null;
  tier: string | null;
  cooldown_until: string | null;
  at: string | null;
  slots: PreviewedSlots;
  decisions: Decision[];
}

export interface PreviewedSlots {
  available: number;
  minimum: number;
  maximum: number;
  missing: number;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  errors: string[];
}

export interface Query {
  name: string;
  shuffle: string | null;
  event_time_delay_s: number | null;
  sources: Source[];
  sink: string | null;
  latency: Latency | null;
}

export interface Range {
  lower: number;
  upper: number;
}

export interface RequestRecord {
  by: string;
  at: string;
  via: string;
  until: string | null;
}

export interface RequirementsSource {
  origin: string;
  name: string;
  via: string | null;
  since: string | null;
  until: string | null;
  reason: string;
}

export interface Rescale {
  number: number;
  requirements: number;
  attempt: number;
  trigger_cause: TriggerCause;
  start: string;
  vertices: Amounts;
  groups: Amounts;
  states: StateSpan[];
  tier: Tier | null;
  downtime: number | null;
  failure: string | null;
  end: string | null;
  terminated_reason: TerminatedReason | null;
  terminal_state: TerminalState | null;
}

export interface RescaleSummary {
  total: number;
  completed: number;
  ignored: number;
  failed: number;
  in_progress: number;
  duration: Durations | null;
  completed_duration: Durations | null;
  ignored_duration: Durations | null;
  failed_duration: Durations | null;
  downtime: Durations | null;
}

export interface Rescales {
  rescales: Rescale[];
}

export type SchedulerStateName = "Created" | "WaitingForResources" | "Deploying" | "Executing" | "RestartingLocally" | "Restarting" | "StopWithSavepoint" | "Canceling" | "Failing" | "Finished" | "unknown";

export interface Slots {
  held: number;
  available: number;
}

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
  partition_lags: PartitionLag[];
  input_limit: number | null;
}

export interface StateSpan {
  state: string;
  entered: string;
  left: string;
}

export type Step = 10 | 60 | 600;

export interface Subtask {
  vertex: string;
  index: number;
}

export interface TaskInstance {
  dag_id: string;
  task_id: string;
  run_id: string;
  map_index: number;
}

export type TerminalState = "COMPLETED" | "FAILED" | "IGNORED";

export type TerminatedReason = "SUCCEEDED" | "EXCEPTION_OCCURRED" | "RESOURCE_REQUIREMENTS_UPDATED" | "NO_RESOURCES_OR_PARALLELISMS_CHANGE" | "JOB_FINISHED" | "JOB_FAILED" | "JOB_CANCELED" | "JOB_FAILOVER_RESTARTING";

export type Tier = 0 | 1 | 2 | 3;

export interface Timeline {
  transitions: Transition[];
  decisions: Decision[];
}

export interface Transition {
  at: string;
  source: string;
  target: string;
  version: number;
  before: Record<string, number> | null;
  after: Record<string, number> | null;
  tier: number | null;
  reason_code: string;
  reason: string;
}

export type TriggerCause = "INITIAL_SCHEDULE" | "UPDATE_REQUIREMENT" | "NEW_RESOURCE_AVAILABLE" | "RECOVERABLE_FAILOVER";

export interface Urls {
  master: string | null;
  driver: string | null;
  executors: string | null;
  stdout: string | null;
  stderr: string | null;
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

export interface VertexRequirements {
  parallelism: Bounds;
}

export interface Waiting {
  phase: string;
  cooldown_ends: string;
  first_change: string | null;
}
