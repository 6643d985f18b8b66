import type { TimelineDetails } from "../../api/types";

interface Entry {
  at: string;
  reason: string;
  reason_code: string;
}

/** Decisions that do not explain the state of a job. */
const NO_REASONS = ["EVENT_IGNORED", "EVENT_OUTDATED"];

/** The newest decision or transition, in any order; null without one, or without the permission to read them. */
export const newest = (timeline: TimelineDetails | undefined): Entry | null =>
  [...(timeline?.decisions ?? []), ...(timeline?.transitions ?? [])]
    .filter(({ reason_code }) => !NO_REASONS.includes(reason_code))
    .reduce<Entry | null>(
      (last, entry) => (last === null || Date.parse(entry.at) > Date.parse(last.at) ? entry : last),
      null,
    );
