import { describe, expect, it } from "vitest";
import type { BoundsBy, Policy } from "../api/types";
import { moment } from "./format";
import { holdFinding, holdQuery, WITHOUT_END } from "./holding";
import { plain } from "./plain";
import {
  boundsSetter,
  holds,
  isDryRun,
  isOverride,
  policyText,
  setter,
  standing,
  successor,
} from "./policies";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const END = "2026-01-01T10:00:00+00:00";

const by = (more: Partial<BoundsBy>): BoundsBy => ({
  kind: "POLICY",
  source: "load",
  via: null,
  since: null,
  until: null,
  reason: "",
  ...more,
});

const policy = (more: Partial<Policy>): Policy => ({
  kind: "CombinedPolicy",
  dry_run: false,
  acts: true,
  advice: null,
  problem: null,
  ...more,
});

describe("who set the bounds", () => {
  it.each([
    [{ kind: "DAG", source: "dag" }, "the DAG", null],
    [{ kind: "CALENDAR", source: "calendar" }, "calendar", null],
    [
      { kind: "CALENDAR", source: "rush/set/r", until: END },
      "calendar: rush/set/r",
      `next change ${moment(END)}`,
    ],
    [{ kind: "POLICY", source: "calendar and load" }, "calendar and load", null],
    [{ kind: "USER", source: "alice", via: "REST" }, "alice (REST)", "until they are lifted"],
    [{ kind: "USER", source: "alice", until: END }, "alice", `until ${moment(END)}`],
  ])("%j", (more, who, until) => {
    expect(setter(by(more))).toBe(who);
    expect(holds(by(more))).toBe(until);
    expect(isOverride(by(more))).toBe(more.kind === "USER");
  });

  it("is unknown before the job has shown it", () => {
    expect(isOverride(null)).toBe(false);
  });
});

describe("a rescale policy", () => {
  it("acts, tells only, or is overridden", () => {
    expect(standing(policy({}))).toBe("acts");
    expect(standing(policy({ acts: false }))).toBe("does not act");
    expect(standing(policy({ acts: false, dry_run: true }))).toBe("dry run");
    expect(policyText("LoadPolicy")).toBe("by load");
    expect(policyText("Own")).toBe("Own");
  });

  it("comes back when a person's bounds end, unless it is a dry run", () => {
    expect(successor(policy({}))).toContain("by calendar and load");
    expect(successor(policy({ dry_run: true }))).toContain("the DAG declares");
    expect(successor(null)).toContain("the DAG declares");
  });
});

describe("the timeline", () => {
  it.each([
    ["bounds by load (query 'q': 2 -> 4): the job rescales", "load"],
    ["bounds by calendar and load (window 'day'; busy): nothing to do", "calendar and load"],
    ["bounds by alice (REST, until 2026-01-01T10:00:00+00:00): ...", "alice"],
    ["bounds by the DAG: nothing to do", "the DAG"],
    ["the upper bounds by far", null],
  ])("%s", (reason, who) => {
    expect(boundsSetter(reason)).toBe(who);
    expect(isDryRun(reason)).toBe(false);
  });

  it("marks what a policy would do", () => {
    expect(isDryRun("dry run: load would set job 1-4 (query 'q': busy)")).toBe(true);
  });

  it("tells instants in the viewer's zone", () => {
    expect(plain(`bounds by alice (REST, until ${END}): 2 -> 4`)).toBe(
      `bounds by alice (REST, until ${moment(END)}): 2 → 4`,
    );
    const run = `bounds by rush/set/scheduled__${END} (task): nothing changes`;
    expect(plain(run)).toBe(run);
  });
});

describe("how long bounds hold", () => {
  it.each(["2h", "30 min", "1 d", "90", " 1.5 Hours "])("for %j", (text) => {
    expect(holdFinding({ kind: "for", text }, NOW)).toBeNull();
    expect(new URLSearchParams(holdQuery({ kind: "for", text })).get("for")).toBe(text.trim());
  });

  it.each(["", "soon", "0 h", "-2 h", "2 weeks", "1e3"])("not for %j", (text) => {
    expect(holdFinding({ kind: "for", text }, NOW)).toContain("length of time");
  });

  it("until a time of the viewer's zone, in the future", () => {
    const hold = { kind: "until" as const, text: "2026-06-01T10:00" };
    expect(holdFinding(hold, NOW)).toBeNull();
    const asked = new URLSearchParams(holdQuery(hold)).get("until") ?? "";
    expect(Date.parse(asked)).toBe(new Date(2026, 5, 1, 10).getTime());
    expect(holdFinding({ ...hold, text: "" }, NOW)).toContain("date and a time");
    expect(holdFinding({ ...hold, text: "2025-06-01T10:00" }, NOW)).toContain("future");
  });

  it("until they are lifted", () => {
    expect(holdFinding(WITHOUT_END, NOW)).toBeNull();
    expect(holdQuery(WITHOUT_END)).toBe("");
  });
});
