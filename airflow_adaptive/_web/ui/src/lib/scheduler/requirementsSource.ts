/** Human-readable sources of the active bounds, and status of the rescale policy. */
import type { RequirementsSource, PublishedPolicy } from "../../api/types";
import { moment } from "../format/format";

const KINDS: Record<string, string> = {
  ScheduledPolicy: "by the calendar",
  LoadPolicy: "by load",
  CombinedPolicy: "by calendar and load",
};

/** The inputs of a rescale policy. */
export const policyText = (kind: string): string => KINDS[kind] ?? kind;

/** Name of the source of the active bounds. */
export const sourceText = ({ origin, name, via }: RequirementsSource): string => {
  switch (origin) {
    case "DAG":
      return "the DAG";
    case "CALENDAR":
      return name === "calendar" ? name : `calendar: ${name}`;
    case "POLICY":
      return name;
    default:
      return via === "" ? name : `${name} (${via})`;
  }
};

/** Whether the bounds of a user are active, which override calendar and load. */
export const isOverride = (by: RequirementsSource | null): by is RequirementsSource => by?.origin === "USER";

/** When the active bounds end; null if unknown. */
export const validity = ({ origin, until }: RequirementsSource): string | null => {
  if (until !== null) return origin === "USER" ? `until ${moment(until)}` : `next change ${moment(until)}`;
  return origin === "USER" ? "until they are cleared" : null;
};

/** The bounds that become active when the bounds of a user end. */
export const successorText = (policy: PublishedPolicy | null): string =>
  policy === null || policy.dry_run
    ? "The bounds of the calendar become active again, or else the bounds that the DAG declares."
    : `The rescale policy (${policyText(policy.kind)}) sets the bounds again.`;

export type PolicyStatus = "dry run" | "active" | "inactive";

/** Whether the advice of a policy is active. */
export const policyStatus = ({ dry_run, active }: PublishedPolicy): PolicyStatus => {
  if (dry_run) return "dry run";
  return active ? "active" : "inactive";
};
