/** How long bounds that a person sets are to hold. The server has the last word. */

export type HoldKind = "lifted" | "for" | "until";

export interface Hold {
  kind: HoldKind;
  /** A duration such as "2 h", or a local date and time. */
  text: string;
}

/** They hold until somebody lifts or changes them. */
export const WITHOUT_END: Hold = { kind: "lifted", text: "" };

const UNITS =
  "d|days?|h|hours?|min|m|minutes?|s|secs?|seconds?|ms|millis?|milliseconds?|us|µs|micros?|microseconds?";
const DURATION = new RegExp(`^\\s*(\\d+(?:\\.\\d+)?)\\s*(?:${UNITS})?\\s*$`, "i");

/** What is wrong with it; null if nothing is. */
export const holdFinding = ({ kind, text }: Hold, now: number): string | null => {
  if (kind === "lifted") return null;
  if (kind === "for") {
    const found = DURATION.exec(text);
    return found !== null && Number(found[1]) > 0 ? null : "Must be a length of time, such as 2 h or 30 min.";
  }
  const end = Date.parse(text);
  if (Number.isNaN(end)) return "Must be a date and a time.";
  return end > now ? null : "Must be in the future.";
};

/** The part of the address that tells the server; for one that is sound. */
export const holdQuery = ({ kind, text }: Hold): string => {
  if (kind === "lifted") return "";
  const value = kind === "for" ? text.trim() : new Date(text).toISOString();
  return `?${new URLSearchParams({ [kind]: value })}`;
};
