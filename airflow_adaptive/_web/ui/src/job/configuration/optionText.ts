/** Human-readable values of scheduler options. */
import { duration, millis } from "../../lib/format/format";

/** Names of options that are durations, in seconds. */
const DURATION = /(timeout|interval|delay|backoff|lifetime|threshold)(_m(in|ax))?$/;

/** The value of an option in one line. */
export const optionText = (name: string, value: unknown): string => {
  if (value === null || value === undefined) return "not set";
  if (typeof value === "number" && DURATION.test(name)) {
    return value > 0 && value < 1 ? millis(value * 1_000) : duration(value);
  }
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  return typeof value === "object" ? objectText(value as Record<string, unknown>) : String(value);
};

/** An object in one line: its type, then each field with its name. */
const objectText = ({ type, ...fields }: Record<string, unknown>): string => {
  const texts = Object.entries(fields).map(
    ([name, value]) => `${name.replaceAll("_", " ")} ${optionText(name, value)}`,
  );
  return [...(type === undefined ? [] : [String(type)]), ...texts].join(", ");
};
