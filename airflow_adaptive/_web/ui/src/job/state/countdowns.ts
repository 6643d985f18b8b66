/** Countdowns of a job: the deadlines of the scheduler, the cooldown, the stabilization and the backoff. */
import type { JobDetails } from "../../api/types";
import { deadlineText, phaseText } from "../../lib/scheduler/states";

export interface Countdown {
  id: string;
  text: string;
  hint: string;
  due: string;
}

/** The countdowns in the order of their ends. Expired waits are omitted, and overdue deadlines are included. */
export const countdowns = (details: JobDetails, now: number): Countdown[] => {
  const found: Countdown[] = details.deadlines.map(({ name, due }) => ({
    id: name,
    text: deadlineText(name),
    hint: name,
    due,
  }));
  const { backoff, waiting } = details;
  if (waiting !== null && waiting.phase === "Cooldown" && Date.parse(waiting.cooldown_ends) > now) {
    found.push({
      id: "cooldown",
      text: "Cooldown after the last rescale ends",
      hint: phaseText(waiting.phase),
      due: waiting.cooldown_ends,
    });
  }
  const stable = stableAt(details);
  if (stable !== null && stable > now) {
    found.push({
      id: "stabilization",
      text: "Stop waiting for more slots",
      hint: "stabilization timeout",
      due: new Date(stable).toISOString(),
    });
  }
  if (backoff?.ends && !found.some(({ id }) => id === "BACKOFF")) {
    found.push({ id: "BACKOFF", text: deadlineText("BACKOFF"), hint: "restart backoff", due: backoff.ends });
  }
  return found.sort((one, other) => Date.parse(one.due) - Date.parse(other.due));
};

/** Time at which changed slots count as stable, in milliseconds; null without a change. */
const stableAt = ({ options, state, waiting }: JobDetails): number | null => {
  if (waiting === null || waiting.phase !== "Stabilizing" || waiting.first_change === null) return null;
  const option = state === "Executing" ? "executing_stabilization_timeout" : "resource_stabilization_timeout";
  const timeout = options[option];
  return typeof timeout === "number" ? Date.parse(waiting.first_change) + timeout * 1_000 : null;
};
