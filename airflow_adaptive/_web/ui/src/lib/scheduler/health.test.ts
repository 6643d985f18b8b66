import { describe, expect, it } from "vitest";
import { exampleJob } from "../../api/exampleJob";
import type { JobDetails } from "../../api/types";
import { healthOf } from "./health";

const METRICS = {
  at: 0,
  backlog: null,
  batch_ms: 500,
  input: 40,
  lag_s: 4,
  unread_files: null,
  lower: 1,
  processed: 90,
  slots: 3,
  upper: 8,
};

const job = (more: Partial<JobDetails> = {}): JobDetails =>
  exampleJob({
    cause: null,
    lag_alert: null,
    metrics: METRICS,
    policy: null,
    requirements: { job: { lower: 1, upper: 8 } },
    slots: { held: 3, available: 3 },
    source_problem: null,
    stale: false,
    ...more,
  });

const sentence = (details: JobDetails): string => {
  const { label, text } = healthOf(details);
  return `${label}: ${text}`;
};

describe("a running job", () => {
  it("keeps up", () => expect(sentence(job())).toBe("Keeps up: 3 of 1–8 slots, lag 4 s"));

  it.each([
    [{}, "no slot is free"],
    [{ slots: { held: 3, available: 4 } }, "1 slot free"],
    [{ slots: { held: 8, available: 9 } }, "all 8 slots of its upper bound"],
  ])("falls behind with %o: %s", (more, why) => {
    const behind = job({ health: "falls_behind", ...more });
    expect(healthOf(behind).label).toBe("Falls behind");
    expect(healthOf(behind).text).toContain(why);
  });

  it("names the slots that the policy advises", () => {
    const advice = {
      at: "",
      since: "",
      bounds: { job: { lower: 1, upper: 5 } },
      source: "",
      reason: "",
      next_at: null,
    };
    const policy = { kind: "LoadPolicy", dry_run: false, active: true, problem: null, advice };
    expect(healthOf(job({ health: "falls_behind", policy })).text).toContain("2 more slots needed");
  });

  it.each([
    [null, "Runs: 3 of 1–8 slots; no rates are known yet, so its lag is unknown"],
    [40, "Runs: 3 of 1–8 slots; its sources report no unread rows, so its lag is unknown"],
  ])("says why its lag is unknown: %s rows in", (input, text) =>
    expect(sentence(job({ health: "runs", metrics: { ...METRICS, input, lag_s: null } }))).toBe(text),
  );

  it("names a source that cannot be read", () =>
    expect(sentence(job({ health: "source_unreadable", source_problem: "no broker answers" }))).toBe(
      "Source unreadable: no broker answers",
    ));
});

describe("a job that does not run", () => {
  it.each([
    [
      { health: "waits", state: "WaitingForResources", slots: { held: 0, available: 0 } } as const,
      "Waits for slots: needs at least 1 slot beside the driver, 0 available",
    ],
    [
      { health: "waits", state: "WaitingForResources", slots: { held: 0, available: 2 } } as const,
      "Waits for slots: 2 slots available, waits whether more appear",
    ],
    [
      { health: "failed", state: "Finished", outcome: "FAILED", cause: "no such table" } as const,
      "Failed: no such table",
    ],
    [
      { health: "ended", state: "Finished", outcome: "SUSPENDED" } as const,
      "Suspended: The job is suspended and can resume from its checkpoint.",
    ],
    [{ health: "stale" } as const, "Unknown: its control loop has published nothing for minutes"],
    [{ health: "no_loop" } as const, "No control loop: nothing controls the driver of the job"],
    [
      { health: "unknown", state: "unknown", metrics: null, slots: null } as const,
      "Unknown: the job has published nothing yet",
    ],
  ])("%o is %s", (more, text) => expect(sentence(job(more))).toBe(text));
});
