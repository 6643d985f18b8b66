/** The scheduler's states for people: labels, Airflow's colors, and what the state means. */

export interface StateStyle {
  label: string;
  /** A palette of the theme. */
  color: string;
  meaning: string;
}

const STATES: Record<string, StateStyle> = {
  Created: { label: "Created", color: "gray", meaning: "It has not been started yet." },
  WaitingForResources: {
    label: "Waiting for resources",
    color: "yellow",
    meaning: "It runs no query: it waits for enough slots.",
  },
  Deploying: {
    label: "Deploying",
    color: "blue",
    meaning: "It was given a plan, and waits for the driver to report it in force.",
  },
  Executing: { label: "Executing", color: "cyan", meaning: "It runs on its plan." },
  RestartingLocally: {
    label: "Restarting locally",
    color: "orange",
    meaning: "It runs on with fewer slots than planned, and waits for them to come back.",
  },
  Restarting: {
    label: "Restarting",
    color: "purple",
    meaning: "It is on its way to another plan, for a rescale or after a failure.",
  },
  StopWithSavepoint: {
    label: "Stop with savepoint",
    color: "pink",
    meaning: "It stops at a batch boundary, to be suspended.",
  },
  Canceling: { label: "Canceling", color: "gray", meaning: "It stops at a batch boundary, for good." },
  Failing: { label: "Failing", color: "red", meaning: "It stops because there is no way on." },
  Finished: { label: "Finished", color: "gray", meaning: "It has ended." },
};

const OUTCOMES: Record<string, StateStyle> = {
  FINISHED: { label: "Finished", color: "green", meaning: "Its input was exhausted." },
  CANCELED: { label: "Canceled", color: "gray", meaning: "It was stopped for good." },
  FAILED: { label: "Failed", color: "red", meaning: "There was no way on." },
  SUSPENDED: {
    label: "Suspended",
    color: "pink",
    meaning: "It was stopped, and can go on from its checkpoint.",
  },
};

const UNKNOWN: StateStyle = {
  label: "Unknown",
  color: "gray",
  meaning: "The job has shown nothing yet.",
};

/** How a state is shown; of a job that has ended, how its outcome is. */
export const styleOf = (state: string, outcome: string | null = null): StateStyle => {
  const ended = state === "Finished" && outcome !== null ? OUTCOMES[outcome] : undefined;
  return ended ?? STATES[state] ?? UNKNOWN;
};

/** All states by name, in the order of a job's life. */
export const STATE_NAMES = Object.keys(STATES);

const TIERS = [
  "executors added or removed under the running query",
  "the query restarted on the living driver",
  "the query restarted and its state repartitioned",
  "a new driver",
];
const TIER_NAMES = ["EXECUTORS", "QUERY", "STATE", "DRIVER"];

/** How a rescale is carried out, by its rung (0 to 3) or the rung's name. */
export const tierText = (tier: number | string | null): string | null => {
  if (tier === null) return null;
  const rung = typeof tier === "number" ? tier : TIER_NAMES.indexOf(tier);
  return TIERS[rung] ?? String(tier);
};

const CLOCKS: Record<string, string> = {
  RESOURCE_WAIT: "Gives up waiting for resources",
  TRANSITION: "Looks at the change again",
  FORCED_RESCALE: "Rescales even for a small change",
  DEPLOY: "Gives up on this deployment",
  LOCAL_RECOVERY: "Stops waiting for lost executors",
  BACKOFF: "Starts again (backoff)",
  STOP: "Kills the driver if it has not stopped",
  DECLARE: "Brings new requirements into force",
  SLOT_IDLE: "Gives back idle slots",
};

/** What happens when a deadline of the scheduler has come. */
export const clockText = (name: string): string => CLOCKS[name] ?? name;

const PHASES: Record<string, string> = {
  Cooldown: "cooldown after a rescale",
  Idling: "nothing to do",
  Stabilizing: "waiting whether more slots come",
  Stabilized: "waiting for the next committed batch",
  Transitioning: "acting on the change",
};

/** How far the scheduler is on its way to act on a change. */
export const phaseText = (phase: string): string => PHASES[phase] ?? phase;

const WORDS: Record<string, string> = {
  INITIAL_SCHEDULE: "Initial schedule",
  UPDATE_REQUIREMENT: "New requirements",
  NEW_RESOURCE_AVAILABLE: "New slots available",
  RECOVERABLE_FAILOVER: "Failover",
  COMPLETED: "Completed",
  FAILED: "Failed",
  IGNORED: "Ignored",
  SUCCEEDED: "The plan is in force",
  EXCEPTION_OCCURRED: "The job failed before the plan was in force",
  RESOURCE_REQUIREMENTS_UPDATED: "Other requirements came into force",
  NO_RESOURCES_OR_PARALLELISMS_CHANGE: "Nothing was left to be gained",
  JOB_FINISHED: "The job finished",
  JOB_FAILED: "The job failed",
  JOB_CANCELED: "The job was canceled",
  JOB_FAILOVER_RESTARTING: "The job restarted after a failure",
};

/** Flink's constants in plain words. */
export const words = (constant: string | null): string =>
  constant === null ? "–" : (WORDS[constant] ?? constant);
