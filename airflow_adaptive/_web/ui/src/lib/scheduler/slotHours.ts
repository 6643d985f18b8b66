/** The cost of a job: slots times time. */
import type { Point } from "./timeSeries";

/**
 * The slot-hours since midnight in the time zone of the user, and those of a cluster that holds the upper bound; null without a point of
 * today.
 */
export const slotHours = (
  points: Point[],
  step: number,
  now: Date,
): { used: number; maximum: number } | null => {
  const midnight = new Date(now).setHours(0, 0, 0, 0) / 1_000;
  const today = points.filter(({ at, slots }) => at >= midnight && slots !== null);
  if (today.length === 0) return null;
  const hours = (value: "slots" | "upper") =>
    today.reduce((sum, point) => sum + (point[value] ?? 0), 0) * (step / 3_600);
  return { used: rounded(hours("slots")), maximum: rounded(hours("upper")) };
};

const rounded = (value: number): number => Math.round(value * 10) / 10;
