/** Human-readable parallelism and bounds. */
import type { Counts, ParallelismRange } from "../../api/types";

/** Number of subtasks of a plan; null without a plan. */
export const total = (parallelism: Counts | null): number | null =>
  parallelism === null ? null : Object.values(parallelism).reduce((sum, value) => sum + value, 0);

/** Sum of the bounds of all vertices. */
export const totalRange = (requirements: Record<string, ParallelismRange>): ParallelismRange | null => {
  const ranges = Object.values(requirements);
  if (ranges.length === 0) return null;
  return {
    lower: ranges.reduce((sum, range) => sum + range.lower, 0),
    upper: ranges.reduce((sum, range) => sum + range.upper, 0),
  };
};

/** Bounds as text: 1–8, or 4 if both bounds are 4. */
export const bounds = (range: ParallelismRange | null): string => {
  if (range === null) return "–";
  return range.lower === range.upper ? `${range.lower}` : `${range.lower}–${range.upper}`;
};

/** Difference between two plans: `2 → 4`, or one difference per vertex. */
export const change = (before: Counts | null, after: Counts | null): string | null => {
  if (after === null) return before === null ? null : `${text(before)} → none`;
  if (before === null) return text(after);
  const differing = Object.keys(after).filter((name) => after[name] !== before[name]);
  if (differing.length === 0) return null;
  if (Object.keys(after).length === 1) return `${total(before)} → ${total(after)}`;
  return shortened(differing.map((name) => `${name} ${before[name] ?? "–"} → ${after[name]}`));
};

/** A plan in one line. */
export const text = (parallelism: Counts): string => {
  const entries = Object.entries(parallelism);
  const only = entries.length === 1 ? entries[0] : undefined;
  return only === undefined ? shortened(entries.map(([name, value]) => `${name} ${value}`)) : `${only[1]}`;
};

/** Bounds of all vertices in one line. */
export const ranges = (requirements: Record<string, ParallelismRange>): string => {
  const entries = Object.entries(requirements);
  const only = entries.length === 1 ? entries[0] : undefined;
  return only === undefined
    ? shortened(entries.map(([name, range]) => `${name} ${bounds(range)}`))
    : bounds(only[1]);
};

const MAX_PARTS = 3;

const shortened = (parts: string[]): string => {
  const more = parts.length - MAX_PARTS;
  return more > 0 ? `${parts.slice(0, MAX_PARTS).join(", ")} and ${more} more` : parts.join(", ");
};
