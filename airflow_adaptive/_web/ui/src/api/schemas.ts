/** Written by `python -m tests.unit._web.ui.test_api_types` from the OpenAPI document of the REST API. */

export interface Amounts {
  after: Record<string, number> | null;
  before: Record<string, number> | null;
  desired: Record<string, number>;
  sufficient: Record<string, number>;
}

export interface Backoff {
  ends: string | null;
  seconds: number;
}

export interface Change {
  after: unknown;
  before: unknown;
  effect: Effect;
  group: Group;
  name: string;
}

export type Consequence = "NOTHING" | "RESCALE" | "START" | "WAIT_FOR_SLOTS" | "STOP_AND_WAIT" | "LATER";

export interface CurrentMetrics {
  at: number;
  backlog: number | null;
  batch_ms: number | null;
  input: number | null;
  lag_s: number | null;
  lag_trend: LagTrend | null;
  lower: number;
  processed: number | null;
  slots: number;
  unread_files: number | null;
  upper: number;
}

export interface Deadline {
  due: string;
  name: string;
}

export interface Decision {
  at: string;
  reason: string;
  reason_code: ReasonCode;
  state: string;
}

export interface Deployment {
  changes: Change[];
  effect: Effect | null;
  keeps_state: boolean | null;
  queries: QueryPreview[];
  reason: string;
  stage: DeploymentStage | null;
  state_reason: string;
  unknown: string[];
}

export type DeploymentStage = "PREPARING" | "PREPARED" | "ENDS_FIRST" | "REFUSED" | "NEXT_START";

export interface Deployments {
  declared: Deployment | null;
  notice: string;
  pending: Deployment | null;
}

export type DesiredState = "running" | "suspended" | "canceled";

export interface DriverOutput {
  stderr: string[];
  stdout: string[];
  submission_id: string;
  waits: string;
}

export interface Durations {
  avg: number;
  max: number;
  min: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number;
  p999: number;
}

export type Effect = "AT_ONCE" | "STATE" | "DRIVER" | "REFUSED";

export interface ExecutorReport {
  cores: number;
  executor_id: string;
  worker: string;
}

export interface Failure {
  causes: string[];
  error_class: string;
  message: string;
}

export interface FailureRecord {
  at: string;
  concurrent: Failure[];
  decision: string;
  failure: Failure;
  state: string;
}

export interface Failures {
  failures: FailureRecord[];
  total_entries: number;
}

export type Group = "code" | "arguments" | "conf" | "environment" | "dependencies" | "sizes" | "bounds" | "policy" | "options" | "place" | "kubernetes";

export type Health = "cluster_unreachable" | "source_unreadable" | "failed" | "fails" | "no_loop" | "stale" | "falls_behind" | "catches_up" | "recovers" | "restarts" | "waits" | "starts" | "unknown" | "runs" | "stops" | "ended" | "keeps_up";

export interface JobCollection {
  jobs: JobItem[];
  problem: string | null;
  total_entries: number;
}

export interface JobDetails {
  abandoned: boolean;
  attempt: string | null;
  backoff: Backoff | null;
  cause: string | null;
  cluster_problem: string | null;
  dag_ids: string[];
  deadlines: Deadline[];
  desired_state: DesiredState | null;
  editable: boolean | null;
  failures: number;
  health: Health;
  job: string;
  job_type: JobType;
  lag_alert: LagAlert | null;
  lag_unknown_since: string | null;
  last_transition: Transition | null;
  metrics: CurrentMetrics | null;
  options: Record<string, unknown>;
  outcome: Outcome | null;
  parallelism: Record<string, number> | null;
  pending_requirements: Record<string, ParallelismRange> | null;
  policy: PublishedPolicy | null;
  problem: string | null;
  published_at: string | null;
  reactive: boolean | null;
  requesters: Record<string, RequestRecord>;
  requirements: Record<string, ParallelismRange>;
  requirements_source: RequirementsSource | null;
  rescales: number;
  restart_attempts: number;
  restarts: number;
  since: string | null;
  slots: SlotCounts | null;
  source_problem: string | null;
  stale: boolean;
  state: SchedulerStateName;
  task: TaskKey | null;
  urls: Urls;
  vertices: Vertex[];
  wait: string | null;
  waiting: Waiting | null;
}

export interface JobItem {
  abandoned: boolean;
  attempt: string | null;
  cause: string | null;
  cluster_problem: string | null;
  dag_ids: string[];
  desired_state: DesiredState | null;
  failures: number;
  health: Health;
  job: string;
  job_type: JobType;
  lag_alert: LagAlert | null;
  lag_unknown_since: string | null;
  last_transition: Transition | null;
  metrics: CurrentMetrics | null;
  outcome: Outcome | null;
  parallelism: Record<string, number> | null;
  problem: string | null;
  published_at: string | null;
  requirements: Record<string, ParallelismRange>;
  requirements_source: RequirementsSource | null;
  rescales: number;
  restart_attempts: number;
  restarts: number;
  since: string | null;
  slots: SlotCounts | null;
  source_problem: string | null;
  stale: boolean;
  state: SchedulerStateName;
  task: TaskKey | null;
  urls: Urls;
  wait: string | null;
}

export type JobType = "STREAMING" | "BATCH";

export interface LagAlert {
  expires_at: string | null;
  lag_s: number;
  since: string;
}

export type LagTrend = "short" | "steady" | "grows" | "shrinks";

export interface LatencyReport {
  max_ms: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  rows: number;
}

export interface Metrics {
  columns: string[];
  points: unknown[][];
  step: number;
}

export type MetricsStep = 10 | 60 | 600;

export type Outcome = "FINISHED" | "CANCELED" | "FAILED" | "SUSPENDED";

export interface ParallelismBounds {
  lowerBound: number;
  upperBound: number;
}

export interface ParallelismRange {
  lower: number;
  upper: number;
}

export interface PartitionLag {
  partition: string;
  rows: number;
  seconds: number;
}

export interface PlanDetails {
  executors: ExecutorReport[];
  imbalance: number | null;
  load_balance_mode: string;
  queries: Query[];
  reported_at: string | null;
  slots: PlannedSlots;
  version: number | null;
  vertices: PlannedVertex[];
  workers: PlannedWorker[];
}

export interface PlannedSlots {
  available: number;
  held: number;
  kept: number | null;
  maximum: number;
  minimum: number;
  planned: number | null;
  standby: number | null;
  standby_prepared: boolean;
}

export interface PlannedVertex {
  effective: number | null;
  lower: number;
  max_parallelism: number;
  name: string;
  planned: number | null;
  slot_sharing_group: string;
  stateful: boolean;
  upper: number;
}

export interface PlannedWorker {
  address: string;
  load: number;
  slot_count: number;
  slots: Subtask[][] | null;
  worker: string;
}

export interface PreparedQuery {
  name: string;
  plan: string[];
  sources: string[];
  state_after: StateSchema[];
  state_before: StateSchema[];
  unchecked: string;
}

export interface PreviewedSlots {
  available: number;
  maximum: number;
  minimum: number;
  missing: number;
}

export interface Problem {
  detail: string;
  errors: string[];
  instance: string;
  status: number;
  title: string;
  type: string;
}

export interface PublishedAdvice {
  at: string;
  bounds: Record<string, ParallelismRange>;
  next_at: string | null;
  reason: string;
  since: string;
  source: string;
}

export interface PublishedPolicy {
  active: boolean;
  advice: PublishedAdvice | null;
  dry_run: boolean;
  kind: string;
  problem: string | null;
}

export interface Query {
  event_time_delay_s: number | null;
  latency: LatencyReport | null;
  name: string;
  shuffle: string | null;
  sink: string | null;
  sources: Source[];
}

export interface QueryPreview {
  is_new: boolean;
  name: string;
  plan_changes: string[] | null;
  prepared: PreparedQuery | null;
  running_sources: string[];
  state_reason: string;
}

export type ReasonCode = "SCHEDULING_STARTED" | "REQUIREMENTS_CHANGED" | "REQUIREMENTS_PENDING" | "REQUIREMENTS_UNCHANGED" | "POLICY_DRY_RUN" | "POLICY_FAILED" | "JOB_DIRECTORY_UNAVAILABLE" | "AIRFLOW_UNAVAILABLE" | "REACTIVE_MODE" | "JOB_REDEPLOYED" | "SLOTS_AVAILABLE" | "SLOTS_PENDING" | "SUBMISSION_UNANSWERED" | "SLOTS_LOST" | "EXECUTORS_DECOMMISSIONED" | "SLOTS_RECOVERED" | "SLOTS_IDLE" | "BELOW_LOWER_BOUND" | "BELOW_MINIMUM_INCREASE" | "COOLDOWN" | "STABILIZATION" | "BATCH_BOUNDARY" | "FORCED_RESCALE" | "NO_PARALLELISM_CHANGE" | "TIER_NOT_ALLOWED" | "PLAN_ACTIVATED" | "PLAN_REJECTED" | "RESOURCE_WAIT_TIMEOUT" | "DEPLOY_TIMEOUT" | "LOCAL_RECOVERY_TIMEOUT" | "STOP_TIMEOUT" | "QUERY_FAILED" | "DRIVER_ENDED" | "DRIVER_MOVED" | "MOVE_ANNOUNCED" | "STANDBY_SUBMITTED" | "DRIVER_PREPARED" | "PREPARATION_FAILED" | "DRIVER_HEARTBEAT_TIMED_OUT" | "NOT_RECOVERABLE" | "NO_FIRST_BATCH" | "RESTARTS_EXHAUSTED" | "SAVEPOINT_COMPLETED" | "SAVEPOINT_FAILED" | "JOB_COMPLETED" | "CANCEL_REQUESTED" | "SUSPEND_REQUESTED" | "LOOP_RESTARTED" | "LAG_EXCEEDED" | "LAG_RECOVERED" | "SCALE_UP_CONTROLLER_FAILED" | "EVENT_OUTDATED" | "EVENT_IGNORED";

export interface RequestRecord {
  at: string;
  by: string;
  until: string | null;
  via: string;
}

export type RequirementsOrigin = "DAG" | "CALENDAR" | "POLICY" | "USER";

export interface RequirementsPreview {
  after: Record<string, number> | null;
  at: string | null;
  before: Record<string, number> | null;
  consequence: Consequence;
  cooldown_until: string | null;
  decisions: Decision[];
  reason: string;
  requirements: Record<string, VertexRequirements>;
  slots: PreviewedSlots;
  tier: string | null;
}

export interface RequirementsSource {
  name: string;
  origin: RequirementsOrigin;
  reason: string;
  since: string | null;
  until: string | null;
  via: string;
}

export interface Rescale {
  attempt: number;
  downtime: number | null;
  end: string | null;
  failure: string | null;
  groups: Amounts;
  number: number;
  requirements: number;
  start: string;
  states: StateSpan[];
  terminal_state: TerminalState | null;
  terminated_reason: TerminatedReason | null;
  tier: Tier | null;
  trigger_cause: TriggerCause;
  vertices: Amounts;
}

export interface RescaleSummary {
  completed: number;
  completed_duration: Durations | null;
  downtime: Durations | null;
  duration: Durations | null;
  failed: number;
  failed_duration: Durations | null;
  ignored: number;
  ignored_duration: Durations | null;
  in_progress: number;
  total: number;
}

export interface Rescales {
  rescales: Rescale[];
}

export type SchedulerStateName = "Created" | "WaitingForResources" | "Deploying" | "Executing" | "RestartingLocally" | "Restarting" | "StopWithSavepoint" | "Canceling" | "Failing" | "Finished" | "unknown";

export interface SlotCounts {
  available: number;
  driver_cores: number;
  held: number;
  total: number | null;
}

export interface Source {
  input_limit: number | null;
  is_lag_minimum: boolean;
  kind: string;
  lag_rows: number | null;
  lag_s: number | null;
  partition_lags: PartitionLag[];
  partitions: number | null;
  skew: number | null;
  unread_files: number | null;
  unread_versions: number | null;
  worst_partition: string | null;
}

export interface StateSchema {
  key: string;
  operator: string;
  partitions: number | null;
  value: string;
}

export interface StateSpan {
  entered: string;
  left: string;
  state: string;
}

export interface Subtask {
  index: number;
  vertex: string;
}

export interface TaskKey {
  dag_id: string;
  map_index: number;
  run_id: string;
  task_id: string;
}

export type TerminalState = "COMPLETED" | "FAILED" | "IGNORED";

export type TerminatedReason = "SUCCEEDED" | "EXCEPTION_OCCURRED" | "RESOURCE_REQUIREMENTS_UPDATED" | "NO_RESOURCES_OR_PARALLELISMS_CHANGE" | "JOB_FINISHED" | "JOB_FAILED" | "JOB_CANCELED" | "JOB_FAILOVER_RESTARTING";

export type Tier = 0 | 1 | 2 | 3;

export interface TimelineDetails {
  decisions: Decision[];
  transitions: Transition[];
}

export interface Transition {
  after: Record<string, number> | null;
  at: string;
  before: Record<string, number> | null;
  reason: string;
  reason_code: ReasonCode;
  source: string;
  target: string;
  tier: Tier | null;
  version: number;
}

export type TriggerCause = "INITIAL_SCHEDULE" | "UPDATE_REQUIREMENT" | "NEW_RESOURCE_AVAILABLE" | "RECOVERABLE_FAILOVER";

export interface Urls {
  driver: string | null;
  executors: string | null;
  master: string | null;
  stderr: string | null;
  stdout: string | null;
}

export interface Vertex {
  inputs: string[];
  lower: number;
  max_parallelism: number;
  name: string;
  slot_sharing_group: string;
  stateful: boolean;
  upper: number;
}

export interface VertexRequirements {
  parallelism: ParallelismBounds;
}

export interface Waiting {
  cooldown_ends: string;
  first_change: string | null;
  phase: string;
}
