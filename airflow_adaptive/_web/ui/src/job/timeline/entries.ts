/** Transitions and decisions as one list. */
import type { Counts, TimelineDetails } from "../../api/types";

interface Common {
  id: string;
  at: string;
  reason_code: string;
  reason: string;
}

export type Entry =
  | (Common & { kind: "decision"; state: string })
  | (Common & {
      kind: "transition";
      source: string;
      target: string;
      before: Counts | null;
      after: Counts | null;
      tier: number | null;
    });

/** All entries, newest first. A decision that a transition repeats is omitted. */
export const entriesOf = ({ transitions, decisions }: TimelineDetails): Entry[] => {
  const repeated = new Set(transitions.map(({ at, reason }) => `${at} ${reason}`));
  const changes = transitions.map((item): Entry => ({
    ...item,
    kind: "transition",
    id: `transition-${item.version}-${item.at}`,
  }));
  const rest = decisions
    .filter(({ at, reason }) => !repeated.has(`${at} ${reason}`))
    .map((item, index): Entry => ({ ...item, kind: "decision", id: `decision-${item.at}-${index}` }));
  return [...changes, ...rest].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
};

/** A reason code as text: PLAN_ACTIVATED becomes "Plan activated". */
export const codeText = (code: string): string => {
  const text = code.replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/** The reason codes of entries, sorted and without repetitions. */
export const codesOf = (entries: Entry[]): string[] =>
  [...new Set(entries.map(({ reason_code }) => reason_code))].sort();
