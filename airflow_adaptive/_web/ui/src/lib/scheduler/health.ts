/** The health of a job in one sentence, from what the job publishes. Unknown values are never reported as good. */
import type { JobDetails, JobItem } from "../../api/types";
import { count, duration } from "../format/format";
import { bounds, totalRange } from "../format/parallelism";
import { styleOf } from "./states";

export interface Health {
  /** A few words, for a list. */
  label: string;
  /** A palette of the theme. */
  color: "gray" | "green" | "orange" | "red" | "yellow";
  /** What stands behind the label, "" if there is no more to say. */
  text: string;
}

type Known = Pick<
  JobItem,
  | "abandoned"
  | "cause"
  | "lag_alert"
  | "metrics"
  | "outcome"
  | "parallelism"
  | "requirements"
  | "slots"
  | "source_problem"
  | "stale"
  | "state"
> &
  Partial<Pick<JobDetails, "policy">>;

/** Input above this multiple of the rate during a batch is more than the job can process. */
const SATURATED = 1.05;

/** The health of a job. */
export const healthOf = (job: Known): Health => {
  if (job.state === "Finished") return ended(job);
  if (job.abandoned) return health("No control loop", "orange", "nothing controls the driver of the job");
  if (job.state === "unknown") return health("Unknown", "gray", "the job has published nothing yet");
  if (job.stale) return health("Unknown", "orange", "its control loop has published nothing for minutes");
  return current(job);
};

const current = (job: Known): Health => {
  switch (job.state) {
    case "Executing":
    case "RestartingLocally":
      return running(job);
    case "WaitingForResources":
      return health("Waits for slots", "yellow", waits(job));
    case "Created":
    case "Deploying":
      return health("Starts", "yellow", `${slotsText(job)}: the driver has not activated the plan yet`);
    case "Restarting":
      return health("Restarts", "yellow", styleOf(job.state).meaning);
    case "Failing":
      return health("Fails", "red", job.cause ?? styleOf(job.state).meaning);
    default:
      return health("Stops", "gray", styleOf(job.state).meaning);
  }
};

const health = (label: string, color: Health["color"], text: string): Health => ({ label, color, text });

const ended = ({ outcome, cause }: Known): Health => {
  const { label, meaning } = styleOf("Finished", outcome);
  return health(label, outcome === "FAILED" ? "red" : "gray", (outcome === "FAILED" && cause) || meaning);
};

const running = (job: Known): Health => {
  const { lag_alert: alert, metrics, source_problem: problem } = job;
  const lag = metrics?.lag_s;
  const where = `${slotsText(job)}${isKnown(lag) ? `, lag ${duration(lag)}` : ""}`;
  if (problem !== null) return health("Source unreadable", "red", problem);
  if (alert !== null || isSaturated(job))
    return health("Falls behind", "orange", `${where}; ${missing(job)}`);
  if (job.state === "RestartingLocally")
    return health("Recovers", "yellow", `${where}; executors were lost, and Spark replaces them`);
  if (!isKnown(lag) && !isBacklogKnown(metrics)) {
    const known = isKnown(metrics?.input) ? "its sources report no unread rows" : "no rates are known yet";
    return health("Runs", "gray", `${where}; ${known}, so its lag is unknown`);
  }
  return health("Keeps up", "green", where);
};

const isKnown = (value: number | null | undefined): value is number => value !== null && value !== undefined;

const isBacklogKnown = (metrics: Known["metrics"]): boolean =>
  isKnown(metrics?.backlog) || isKnown(metrics?.unread_files);

const isSaturated = ({ metrics }: Known): boolean => {
  const { input, processed } = metrics ?? {};
  return isKnown(input) && isKnown(processed) && processed > 0 && input > SATURATED * processed;
};

/** Why a job that falls behind has no more slots. */
const missing = ({ metrics, policy, slots }: Known): string => {
  if (slots === null || metrics === null) return "its slots are not known";
  const { held, available } = slots;
  if (held >= metrics.upper) return `it has all ${count(metrics.upper)} slots of its upper bound`;
  const more = advisedSlots(policy) - held;
  const needed = more > 0 ? `${plural(more, "more slot")} needed, ` : "";
  return `${needed}${available > held ? `${plural(available - held, "slot")} free` : "no slot is free"}`;
};

const advisedSlots = (policy: JobDetails["policy"] | undefined): number =>
  policy?.active ? (totalRange(policy.advice?.bounds ?? {})?.upper ?? 0) : 0;

const waits = ({ metrics, requirements, slots }: Known): string => {
  const least = metrics?.lower ?? totalRange(requirements)?.lower;
  const available = slots?.available;
  if (!isKnown(least) || !isKnown(available)) return "its slots are not known";
  return available < least
    ? `needs at least ${plural(least, "slot")} beside the driver, ${count(available)} available`
    : `${plural(available, "slot")} available, waits whether more appear`;
};

/** The slots that a job holds, and its bounds: 3 of 1–8 slots. */
const slotsText = ({ metrics, requirements, slots }: Known): string => {
  // Vertices may share slots, so that only the metrics know the slots of several vertices.
  const isOne = metrics === null || Object.keys(requirements).length === 1;
  const range = isOne ? totalRange(requirements) : { lower: metrics.lower, upper: metrics.upper };
  return `${count(slots?.held)} of ${bounds(range)} slots`;
};

const plural = (number: number, what: string): string => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
