/** Labels, Airflow's colors and meanings of the scheduler states. */
import type { JobItem } from "../../api/types";

export interface StateStyle {
  label: string;
  /** A palette of the theme. */
  color: string;
  meaning: string;
}

const STATES: Record<string, StateStyle> = {
  Created: { label: "Created", color: "gray", meaning: "The job has not started yet." },
  WaitingForResources: {
    label: "Waiting for resources",
    color: "yellow",
    meaning: "The job is waiting for enough slots and runs no query.",
  },
  Deploying: {
    label: "Deploying",
    color: "blue",
    meaning: "Waiting for the driver to activate the new plan.",
  },
  Executing: { label: "Executing", color: "cyan", meaning: "The job is running with its plan." },
  RestartingLocally: {
    label: "Restarting locally",
    color: "orange",
    meaning: "The job is running with fewer slots than planned and is waiting for lost executors.",
  },
  Restarting: {
    label: "Restarting",
    color: "purple",
    meaning: "The job is stopping its queries to restart, for a rescale or after a failure.",
  },
  StopWithSavepoint: {
    label: "Suspending",
    color: "pink",
    meaning: "The job is stopping at a batch boundary and is then suspended.",
  },
  Canceling: {
    label: "Canceling",
    color: "gray",
    meaning: "The job is stopping permanently at a batch boundary.",
  },
  Failing: {
    label: "Failing",
    color: "red",
    meaning: "The job is stopping because of a failure that it cannot recover from.",
  },
  Finished: { label: "Finished", color: "gray", meaning: "The job has ended." },
};

const OUTCOMES: Record<string, StateStyle> = {
  FINISHED: { label: "Finished", color: "green", meaning: "The job has processed all of its input." },
  CANCELED: { label: "Canceled", color: "gray", meaning: "A user canceled the job." },
  FAILED: { label: "Failed", color: "red", meaning: "The job failed and could not recover." },
  SUSPENDED: {
    label: "Suspended",
    color: "pink",
    meaning: "The job is suspended and can resume from its checkpoint.",
  },
};

const UNKNOWN: StateStyle = {
  label: "Unknown",
  color: "gray",
  meaning: "The job has not published its state yet.",
};

/** Style of a state, or of the outcome of a job that has ended. */
export const styleOf = (state: string, outcome: string | null = null): StateStyle => {
  const ended = state === "Finished" && outcome !== null ? OUTCOMES[outcome] : undefined;
  return ended ?? STATES[state] ?? UNKNOWN;
};

/** Whether the values of a job are those of now: it has not ended, and its control loop publishes them. */
export const isCurrent = ({
  abandoned,
  stale,
  state,
}: Pick<JobItem, "abandoned" | "stale" | "state">): boolean => state !== "Finished" && !stale && !abandoned;

/** Names of all states, in the order of a job's life. */
export const STATE_NAMES = Object.keys(STATES);

const TIERS = [
  "executors added or removed under the running query",
  "the query restarted on the running driver",
  "the query restarted and its state repartitioned",
  "a new driver",
];
const TIER_NAMES = ["EXECUTORS", "QUERY", "STATE", "DRIVER"];

/** Description of a rescale tier, by its index (0 to 3) or its name. */
export const tierText = (tier: number | string | null): string | null => {
  if (tier === null) return null;
  const index = typeof tier === "number" ? tier : TIER_NAMES.indexOf(tier);
  return TIERS[index] ?? String(tier);
};

const DEADLINES: Record<string, string> = {
  RESOURCE_WAIT: "Stop waiting for resources",
  TRANSITION: "Check the change again",
  FORCED_RESCALE: "Rescale even for a small change",
  DEPLOY: "Cancel this deployment",
  LOCAL_RECOVERY: "Stop waiting for lost executors",
  BACKOFF: "Restart (backoff)",
  STOP: "Kill the driver if it has not stopped",
  APPLY_REQUIREMENTS: "Apply new requirements",
  SLOT_IDLE: "Release idle slots",
};

/** The action of the scheduler at a deadline. */
export const deadlineText = (name: string): string => DEADLINES[name] ?? name;

const PHASES: Record<string, string> = {
  Cooldown: "cooldown after a rescale",
  Idling: "no change to act on",
  Stabilizing: "waiting for more slots",
  Stabilized: "waiting for the next committed batch",
  Transitioning: "rescaling",
};

/** The phase of the scheduler while it handles a change of resources. */
export const phaseText = (phase: string): string => PHASES[phase] ?? phase;

const CONSTANTS: Record<string, string> = {
  INITIAL_SCHEDULE: "Initial schedule",
  UPDATE_REQUIREMENT: "New requirements",
  NEW_RESOURCE_AVAILABLE: "New slots available",
  RECOVERABLE_FAILOVER: "Failover",
  COMPLETED: "Completed",
  FAILED: "Failed",
  IGNORED: "Ignored",
  SUCCEEDED: "The plan is active",
  EXCEPTION_OCCURRED: "The job failed before the plan was active",
  RESOURCE_REQUIREMENTS_UPDATED: "Other requirements became active",
  NO_RESOURCES_OR_PARALLELISMS_CHANGE: "Resources and parallelism did not change",
  JOB_FINISHED: "The job finished",
  JOB_FAILED: "The job failed",
  JOB_CANCELED: "The job was canceled",
  JOB_FAILOVER_RESTARTING: "The job restarted after a failure",
};

/** Human-readable names of Flink's constants. */
export const constantText = (constant: string | null): string =>
  constant === null ? "–" : (CONSTANTS[constant] ?? constant);
