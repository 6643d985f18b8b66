import type { TimelineDetails } from "../../api/types";

interface Entry {
  at: string;
  reason: string;
}

/** The newest decision or transition, in any order; null without one, or without the permission to read them. */
export const newest = (timeline: TimelineDetails | undefined): Entry | null =>
  [...(timeline?.decisions ?? []), ...(timeline?.transitions ?? [])].reduce<Entry | null>(
    (last, entry) => (last === null || Date.parse(entry.at) > Date.parse(last.at) ? entry : last),
    null,
  );
