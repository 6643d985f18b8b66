/** When the bounds of a user expire. The server validates the values again. */

export type ExpiryKind = "never" | "duration" | "until";

export interface Expiry {
  kind: ExpiryKind;
  /** A duration such as "2 h", or a local date and time. */
  text: string;
}

/** Bounds that apply until a user clears or changes them. */
export const NO_EXPIRY: Expiry = { kind: "never", text: "" };

const UNITS =
  "d|days?|h|hours?|min|m|minutes?|s|secs?|seconds?|ms|millis?|milliseconds?|us|µs|micros?|microseconds?";
const DURATION = new RegExp(`^\\s*(\\d+(?:\\.\\d+)?)\\s*(?:${UNITS})?\\s*$`, "i");

/** The violation of an expiry; null if the expiry is valid. */
export const expiryViolation = ({ kind, text }: Expiry, now: number): string | null => {
  if (kind === "never") return null;
  if (kind === "duration") {
    const found = DURATION.exec(text);
    return found !== null && Number(found[1]) > 0 ? null : "Must be a duration such as 2 h or 30 min.";
  }
  const end = Date.parse(text);
  if (Number.isNaN(end)) return "Must be a date and a time.";
  return end > now ? null : "Must be in the future.";
};

/** The query string of a valid expiry. */
export const expiryQuery = ({ kind, text }: Expiry): string => {
  if (kind === "never") return "";
  const value = kind === "duration" ? text.trim() : new Date(text).toISOString();
  return `?${new URLSearchParams({ [kind]: value })}`;
};
