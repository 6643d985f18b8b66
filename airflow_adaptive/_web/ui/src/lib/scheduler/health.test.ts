import { describe, expect, it } from "vitest";
import { exampleJob } from "../../api/exampleJob";
import type { JobDetails } from "../../api/types";
import { healthOf, holdersOf } from "./health";

const METRICS = {
  at: 0,
  backlog: null,
  batch_ms: 500,
  input: 40,
  lag_s: 4,
  lag_trend: "short" as const,
  unread_files: null,
  lower: 1,
  processed: 90,
  slots: 3,
  upper: 8,
};

const slots = (held: number, available: number) => ({ held, available, total: null, driver_cores: 0 });

const job = (more: Partial<JobDetails> = {}): JobDetails =>
  exampleJob({
    cause: null,
    cluster_problem: null,
    lag_alert: null,
    metrics: METRICS,
    policy: null,
    requirements: { job: { lower: 1, upper: 8 } },
    slots: slots(3, 3),
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
    [{ slots: slots(3, 4) }, "1 slot free"],
    [{ slots: slots(8, 9) }, "all 8 slots of its upper bound"],
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
    [
      "runs",
      { input: null, lag_s: null },
      "Runs: 3 of 1–8 slots; its lag is unknown, because no rates are known yet",
    ],
    [
      "runs",
      { lag_s: null },
      "Runs: 3 of 1–8 slots; its lag is unknown, because its sources do not report it",
    ],
    ["runs", { lag_s: 90 }, "Runs: 3 of 1–8 slots, lag 1 m 30 s; whether the lag grows is not known yet"],
    ["runs", { lag_trend: "steady" }, "Runs: 3 of 1–8 slots, lag 4 s, which neither grows nor shrinks"],
    ["catches_up", { lag_trend: "shrinks" }, "Catches up: 3 of 1–8 slots, lag 4 s, which shrinks"],
    [
      "falls_behind",
      { lag_trend: "grows" },
      "Falls behind: 3 of 1–8 slots, lag 4 s, which grows; no slot is free",
    ],
  ] as const)("%s with %o: %s", (health, more, text) =>
    expect(sentence(job({ health, metrics: { ...METRICS, lag_trend: null, ...more } }))).toBe(text),
  );

  it.each([
    [{ health: "source_unreadable", source_problem: "no broker" } as const, "Source unreadable: no broker"],
    [
      { health: "cluster_unreachable", cluster_problem: "no answer" } as const,
      "Cluster unreachable: no answer",
    ],
  ])("names what does not answer: %o", (more, text) => expect(sentence(job(more))).toBe(text));
});

describe("a job that does not run", () => {
  it.each([
    [
      { health: "waits", state: "WaitingForResources", wait: "needs at least 1 slot" } as const,
      "Waits for slots: needs at least 1 slot",
    ],
    [{ health: "waits", state: "WaitingForResources" } as const, "Waits for slots: its slots are not known"],
    [
      { health: "waits", wait: "needs 1 slot", cause: "no broker", restart_attempts: 2 } as const,
      "Waits for slots: needs 1 slot; attempt 2, no broker",
    ],
    [{ health: "restarts", state: "Restarting", cause: "no broker" } as const, "Restarts: no broker"],
    [{ health: "restarts", state: "Deploying", restart_attempts: 3 } as const, "Restarts: attempt 3"],
    [{ health: "starts", state: "WaitingForResources", wait: "2 slots" } as const, "Starts: 2 slots"],
    [
      { health: "starts", state: "Deploying" } as const,
      "Starts: 3 of 1–8 slots: the driver has not activated the plan yet",
    ],
    [
      { health: "restarts", state: "Deploying", cause: "no broker", restart_attempts: 3 } as const,
      "Restarts: attempt 3, no broker",
    ],
    [
      { health: "restarts", state: "Executing", cause: "no broker", restart_attempts: 3 } as const,
      "Restarts: attempt 3, no broker; the driver runs, and has completed no batch yet",
    ],
    [
      { health: "restarts", state: "Restarting" } as const,
      "Restarts: The job is stopping its queries to restart, for a rescale or after a failure.",
    ],
    [
      { health: "failed", state: "Finished", outcome: "FAILED", cause: "no such table" } as const,
      "Failed: no such table",
    ],
    [
      { health: "ended", state: "Finished", outcome: "SUSPENDED" } as const,
      "Suspended: The job is suspended and can resume from its checkpoint.",
    ],
    [
      { health: "stale" } as const,
      "Unknown: its control loop has published nothing for minutes: check that a triggerer runs",
    ],
    [{ health: "no_loop" } as const, "No control loop: nothing controls the driver of the job"],
    [
      { health: "unknown", state: "unknown", metrics: null, slots: null } as const,
      "Unknown: the job has published nothing yet",
    ],
  ])("%o is %s", (more, text) => expect(sentence(job(more))).toBe(text));
});

describe("a job that waits for slots", () => {
  it("names the jobs that hold the slots of its cluster", () => {
    const on = (name: string, master: string | null, held: number, outcome: "FINISHED" | null = null) =>
      job({ job: name, outcome, slots: slots(held, held), urls: { master } as JobDetails["urls"] });
    const others = [
      on("b", "m", 1),
      on("a", "m", 3),
      on("c", "other", 9),
      on("d", "m", 2, "FINISHED"),
      on("e", "m", 0),
    ];
    expect(holdersOf(on("b2", "m", 5), others)).toBe("a 3, b 1");
    expect(holdersOf(on("b2", null, 5), [on("f", null, 1)])).toBe("");
  });
});
