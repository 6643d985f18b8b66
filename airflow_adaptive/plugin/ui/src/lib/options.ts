/** Options of the scheduler for people. */
import { duration, millis } from "./format";

/** Names of options that are durations, in seconds. */
const DURATION = /(timeout|interval|delay|backoff|lifetime|threshold)(_m(in|ax))?$/;

/** An option's value in one line. */
export const optionText = (name: string, value: unknown): string => {
  if (value === null || value === undefined) return "not set";
  if (typeof value === "number" && DURATION.test(name)) {
    return value > 0 && value < 1 ? millis(value * 1_000) : duration(value);
  }
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  return typeof value === "object" ? partsText(value as Record<string, unknown>) : String(value);
};

/** What consists of parts: its type, then each part with its name. */
const partsText = ({ type, ...parts }: Record<string, unknown>): string => {
  const told = Object.entries(parts).map(
    ([name, value]) => `${name.replaceAll("_", " ")} ${optionText(name, value)}`,
  );
  return [...(type === undefined ? [] : [String(type)]), ...told].join(", ");
};
