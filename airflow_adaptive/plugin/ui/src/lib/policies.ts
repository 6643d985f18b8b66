/** Who set a job's bounds, and what its rescale policy advises, for people. */
import type { BoundsBy, Policy } from "../api/types";
import { moment } from "./format";

const KINDS: Record<string, string> = {
  ScheduledPolicy: "by the calendar",
  LoadPolicy: "by load",
  CombinedPolicy: "by calendar and load",
};

/** What a rescale policy goes by. */
export const policyText = (kind: string): string => KINDS[kind] ?? kind;

/** Who set the bounds that are in force. */
export const setter = ({ kind, source, via }: BoundsBy): string => {
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

/** Whether a person's bounds are in force, which win over calendar and load. */
export const isOverride = (by: BoundsBy | null): by is BoundsBy => by?.kind === "USER";

/** How long bounds hold; null if nobody knows. */
export const holds = ({ kind, until }: BoundsBy): string | null => {
  if (until !== null) return kind === "USER" ? `until ${moment(until)}` : `next change ${moment(until)}`;
  return kind === "USER" ? "until they are lifted" : null;
};

/** What comes back when a person's bounds end. */
export const successor = (policy: Policy | null): string =>
  policy === null || policy.dry_run
    ? "Those of the calendar come back, or else those that the DAG declares."
    : `The rescale policy (${policyText(policy.kind)}) sets them again.`;

export type Standing = "dry run" | "acts" | "does not act";

/** Whether what a policy advises is what the job has. */
export const standing = ({ dry_run, acts }: Policy): Standing => {
  if (dry_run) return "dry run";
  return acts ? "acts" : "does not act";
};

/** Whom a decision of the timeline tells of as the one who set bounds; null if it tells of something else. */
export const boundsSetter = (reason: string): string | null =>
  /^bounds by (.+?)(?: \(|: )/.exec(reason)?.[1] ?? null;

/** Whether a decision of the timeline tells what a policy would do. */
export const isDryRun = (reason: string): boolean => reason.startsWith("dry run: ");
