import { describe, expect, it } from "vitest";
import type { RequirementsSource, PublishedPolicy } from "../../api/types";
import { moment } from "../format/format";
import { readable } from "../format/reasonText";
import {
  validity,
  isOverride,
  policyText,
  sourceText,
  policyStatus,
  successorText,
} from "./requirementsSource";

const END = "2026-01-01T10:00:00+00:00";

const by = (more: Partial<RequirementsSource>): RequirementsSource => ({
  origin: "POLICY",
  name: "load",
  via: "",
  since: null,
  until: null,
  reason: "",
  ...more,
});

const policy = (more: Partial<PublishedPolicy>): PublishedPolicy => ({
  kind: "CombinedPolicy",
  dry_run: false,
  active: true,
  advice: null,
  problem: null,
  ...more,
});

describe("the source of the bounds", () => {
  it.each<[Partial<RequirementsSource>, string, string | null]>([
    [{ origin: "DAG", name: "dag" }, "the DAG", null],
    [{ origin: "CALENDAR", name: "calendar" }, "calendar", null],
    [
      { origin: "CALENDAR", name: "rush/set/r", until: END },
      "calendar: rush/set/r",
      `next change ${moment(END)}`,
    ],
    [{ origin: "POLICY", name: "calendar and load" }, "calendar and load", null],
    [{ origin: "USER", name: "alice", via: "REST" }, "alice (REST)", "until they are cleared"],
    [{ origin: "USER", name: "alice", until: END }, "alice", `until ${moment(END)}`],
  ])("%j", (more, who, until) => {
    expect(sourceText(by(more))).toBe(who);
    expect(validity(by(more))).toBe(until);
    expect(isOverride(by(more))).toBe(more.origin === "USER");
  });

  it("is unknown before the job has published it", () => {
    expect(isOverride(null)).toBe(false);
  });
});

describe("a rescale policy", () => {
  it("is active, a dry run, or overridden", () => {
    expect(policyStatus(policy({}))).toBe("active");
    expect(policyStatus(policy({ active: false }))).toBe("inactive");
    expect(policyStatus(policy({ active: false, dry_run: true }))).toBe("dry run");
    expect(policyText("LoadPolicy")).toBe("by load");
    expect(policyText("Own")).toBe("Own");
  });

  it("becomes active when the bounds of a user end, unless it is a dry run", () => {
    expect(successorText(policy({}))).toContain("by calendar and load");
    expect(successorText(policy({ dry_run: true }))).toContain("the DAG declares");
    expect(successorText(null)).toContain("the DAG declares");
  });
});

describe("the timeline", () => {
  it("shows instants in the time zone of the user", () => {
    expect(readable(`bounds by alice (REST, until ${END}): 2 -> 4`)).toBe(
      `bounds by alice (REST, until ${moment(END)}): 2 → 4`,
    );
    const run = `bounds by rush/set/scheduled__${END} (task): nothing changes`;
    expect(readable(run)).toBe(run);
  });
});
