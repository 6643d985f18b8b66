/** The health of a job in one sentence, from what the job publishes. */
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
  | "cause"
  | "cluster_problem"
  | "health"
  | "metrics"
  | "outcome"
  | "parallelism"
  | "requirements"
  | "restart_attempts"
  | "slots"
  | "source_problem"
  | "state"
  | "wait"
> &
  Partial<Pick<JobDetails, "policy">>;

/** The health of a job, which the REST API determines, with its sentence. */
export const healthOf = (job: Known): Health => (SENTENCES[job.health] ?? SENTENCES.unknown)(job);

const ended = ({ health: kind, outcome, cause }: Known): Health => {
  const { label, meaning } = styleOf("Finished", outcome);
  const isFailed = kind === "failed";
  return health(label, isFailed ? "red" : "gray", (isFailed && cause) || meaning);
};

const SENTENCES: Record<Known["health"], (job: Known) => Health> = {
  failed: ended,
  ended,
  no_loop: () => health("No control loop", "orange", "nothing controls the driver of the job"),
  unknown: () => health("Unknown", "gray", "the job has published nothing yet"),
  stale: () =>
    health(
      "Unknown",
      "orange",
      "its control loop has published nothing for minutes: check that a triggerer runs",
    ),
  waits: (job) =>
    health("Waits for slots", "yellow", `${job.wait ?? "its slots are not known"}${afterFailure(job)}`),
  starts: (job) => health("Starts", "yellow", job.wait ?? `${slotsText(job)}: ${NOT_ACTIVE}`),
  restarts: (job) => health("Restarts", "yellow", restarts(job)),
  fails: (job) => health("Fails", "red", job.cause ?? styleOf(job.state).meaning),
  stops: (job) => health("Stops", "gray", styleOf(job.state).meaning),
  cluster_unreachable: (job) => health("Cluster unreachable", "red", job.cluster_problem ?? ""),
  source_unreadable: (job) => health("Source unreadable", "red", job.source_problem ?? ""),
  falls_behind: (job) => health("Falls behind", "orange", `${slotsAndLag(job)}; ${missing(job)}`),
  catches_up: (job) => health("Catches up", "yellow", slotsAndLag(job)),
  recovers: (job) =>
    health("Recovers", "yellow", `${slotsAndLag(job)}; executors were lost, and Spark replaces them`),
  runs: (job) => health("Runs", "gray", `${slotsAndLag(job)}${whyUnknown(job)}`),
  keeps_up: (job) => health("Keeps up", "green", slotsAndLag(job)),
};

const NOT_ACTIVE = "the driver has not activated the plan yet";

const afterFailure = ({ cause, restart_attempts }: Known): string =>
  cause === null ? "" : `; attempt ${count(restart_attempts)}, ${cause}`;

const restarts = ({ cause, restart_attempts, state }: Known): string => {
  if (restart_attempts === 0) return cause ?? styleOf(state).meaning;
  const isActive = state === "Executing" ? "; the driver runs, and has completed no batch yet" : "";
  return `attempt ${count(restart_attempts)}${cause === null ? "" : `, ${cause}`}${isActive}`;
};

const health = (label: string, color: Health["color"], text: string): Health => ({ label, color, text });

const TRENDS: Record<string, string> = {
  grows: ", which grows",
  shrinks: ", which shrinks",
  steady: ", which neither grows nor shrinks",
};

const slotsAndLag = (job: Known): string => {
  const lag = job.metrics?.lag_s;
  const trend = TRENDS[job.metrics?.lag_trend ?? ""] ?? "";
  return `${slotsText(job)}${isKnown(lag) ? `, lag ${duration(lag)}${trend}` : ""}`;
};

const whyUnknown = ({ metrics }: Known): string => {
  if (metrics?.lag_trend) return "";
  if (isKnown(metrics?.lag_s)) return "; whether the lag grows is not known yet";
  const why = isKnown(metrics?.input) ? "its sources do not report it" : "no rates are known yet";
  return `; its lag is unknown, because ${why}`;
};

const isKnown = (value: number | null | undefined): value is number => value !== null && value !== undefined;

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

const MAX_HOLDERS = 3;

/** The jobs that hold most slots of a cluster: departures 3, arrivals 1; "" if the cluster or its other jobs are unknown. */
export const holdersOf = ({ job: name, urls }: Pick<JobItem, "job" | "urls">, jobs: JobItem[]): string =>
  jobs
    .filter((it) => it.job !== name && it.outcome === null && it.urls.master === urls.master)
    .map((it) => ({ name: it.job, held: it.slots?.held ?? 0 }))
    .filter(({ held }) => held > 0 && urls.master !== null)
    .sort((one, other) => other.held - one.held)
    .slice(0, MAX_HOLDERS)
    .map((it) => `${it.name} ${count(it.held)}`)
    .join(", ");

/** The slots that a job holds, and its bounds: 3 of 1–8 slots. */
const slotsText = ({ metrics, requirements, slots }: Known): string => {
  // Vertices may share slots, so that only the metrics know the slots of several vertices.
  const isOne = metrics === null || Object.keys(requirements).length === 1;
  const range = isOne ? totalRange(requirements) : { lower: metrics.lower, upper: metrics.upper };
  return `${count(slots?.held)} of ${bounds(range)} slots`;
};

const plural = (number: number, what: string): string => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
