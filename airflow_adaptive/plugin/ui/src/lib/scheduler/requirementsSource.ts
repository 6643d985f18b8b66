/** Human-readable sources of the active bounds, and status of the rescale policy. */
import type { RequirementsSource, Policy } from "../../api/types";
import { moment } from "../format/format";

const KINDS: Record<string, string> = {
  ScheduledPolicy: "by the calendar",
  LoadPolicy: "by load",
  CombinedPolicy: "by calendar and load",
};

/** The inputs of a rescale policy. */
export const policyText = (kind: string): string => KINDS[kind] ?? kind;

/** Name of the source of the active bounds. */
export const sourceText = ({ kind, source, via }: RequirementsSource): string => {
  switch (kind) {
    case "DAG":
      return "the DAG";
    case "CALENDAR":
      return source === "calendar" ? source : `calendar: ${source}`;
    case "POLICY":
      return source;
    default:
      return via === null ? source : `${source} (${via})`;
  }
};

/** Whether the bounds of a user are active, which override calendar and load. */
export const isOverride = (by: RequirementsSource | null): by is RequirementsSource => by?.kind === "USER";

/** When the active bounds end; null if unknown. */
export const validity = ({ kind, until }: RequirementsSource): string | null => {
  if (until !== null) return kind === "USER" ? `until ${moment(until)}` : `next change ${moment(until)}`;
  return kind === "USER" ? "until they are cleared" : null;
};

/** The bounds that become active when the bounds of a user end. */
export const successorText = (policy: Policy | null): string =>
  policy === null || policy.dry_run
    ? "The bounds of the calendar become active again, or else the bounds that the DAG declares."
    : `The rescale policy (${policyText(policy.kind)}) sets the bounds again.`;

export type PolicyStatus = "dry run" | "active" | "inactive";

/** Whether the advice of a policy is active. */
export const policyStatus = ({ dry_run, acts }: Policy): PolicyStatus => {
  if (dry_run) return "dry run";
  return acts ? "active" : "inactive";
};

/** The source of bounds that a decision of the timeline names; null for other decisions. */
export const sourceOfDecision = (reason: string): string | null =>
  /^bounds by (.+?)(?: \(|: )/.exec(reason)?.[1] ?? null;

/** Whether a decision of the timeline reports the advice of a dry run. */
export const isDryRun = (reason: string): boolean => reason.startsWith("dry run: ");
