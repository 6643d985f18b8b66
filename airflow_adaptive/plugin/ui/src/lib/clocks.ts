/** Which clocks of a job run: the scheduler's deadlines, and the waits that hold it back. */
import type { JobDetails } from "../api/types";
import { clockText, phaseText } from "./states";

export interface Countdown {
  id: string;
  text: string;
  hint: string;
  due: string;
}

/** The clocks in the order in which they end; those that have ended are left out, unless a deadline is overdue. */
export const countdowns = (details: JobDetails, now: number): Countdown[] => {
  const found: Countdown[] = details.clocks.map(({ name, due }) => ({
    id: name,
    text: clockText(name),
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
      text: "Stops waiting for still more slots",
      hint: "stabilization timeout",
      due: new Date(stable).toISOString(),
    });
  }
  if (backoff?.ends && !found.some(({ id }) => id === "BACKOFF")) {
    found.push({ id: "BACKOFF", text: clockText("BACKOFF"), hint: "restart backoff", due: backoff.ends });
  }
  return found.sort((one, other) => Date.parse(one.due) - Date.parse(other.due));
};

/** When slots that have changed count as stable, in milliseconds; null if nothing has changed. */
const stableAt = ({ options, state, waiting }: JobDetails): number | null => {
  if (waiting === null || waiting.phase !== "Stabilizing" || waiting.first_change === null) return null;
  const option = state === "Executing" ? "executing_stabilization_timeout" : "resource_stabilization_timeout";
  const timeout = options[option];
  return typeof timeout === "number" ? Date.parse(waiting.first_change) + timeout * 1_000 : null;
};
