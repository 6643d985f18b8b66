import { describe, expect, it } from "vitest";
import type { JobDetails } from "../api/types";
import { mayRetry, problemOf } from "../api/problem";
import { countdowns } from "./clocks";
import { resolved } from "./mode";
import { EDGES, NODES } from "./diagram";
import { optionText } from "./options";
import { change } from "./parallelism";
import { refusal } from "./permissions";
import { plain } from "./plain";
import { STATE_NAMES } from "./states";
import { entriesOf } from "./timeline";
import { isWeb } from "./web";

const NOW = Date.parse("2013-01-01T00:00:00Z");

const job = (more: Partial<JobDetails>): JobDetails =>
  ({
    job: "departures",
    job_type: "STREAMING",
    state: "Executing",
    outcome: null,
    desired_state: "running",
    editable: true,
    reactive: false,
    vertices: [{ name: "job" }],
    clocks: [],
    waiting: null,
    backoff: null,
    options: {},
    ...more,
  }) as JobDetails;

describe("clocks", () => {
  it("count down in the order in which they end, those that have ended apart", () => {
    const details = job({
      clocks: [{ name: "SLOT_IDLE", due: "2013-01-01T00:00:50Z" }],
      waiting: {
        phase: "Stabilizing",
        cooldown_ends: "2012-12-31T23:59:00Z",
        first_change: "2012-12-31T23:59:50Z",
      },
      options: { executing_stabilization_timeout: 30 },
    });
    expect(countdowns(details, NOW).map(({ id }) => id)).toEqual(["stabilization", "SLOT_IDLE"]);
  });

  it("show the cooldown, and a backoff once", () => {
    const details = job({
      clocks: [{ name: "BACKOFF", due: "2013-01-01T00:00:09Z" }],
      waiting: { phase: "Cooldown", cooldown_ends: "2013-01-01T00:00:30Z", first_change: null },
      backoff: { seconds: 9, ends: "2013-01-01T00:00:09Z" },
    });
    expect(countdowns(details, NOW).map(({ id }) => id)).toEqual(["BACKOFF", "cooldown"]);
  });
});

describe("what may be asked", () => {
  it.each([
    [{}, [null, null, "The job is not suspended.", null]],
    [{ desired_state: "suspended" }, [null, "It is being suspended already.", null, null]],
    [{ state: "Finished", outcome: "SUSPENDED" }, [null, "The job has ended.", null, "The job has ended."]],
    [
      { reactive: true },
      ["A reactive job takes all slots that there are.", null, "The job is not suspended.", null],
    ],
  ])("of a job that is %j", (more, refusals) => {
    const actions = ["requirements", "suspend", "resume", "cancel"] as const;
    expect(actions.map((action) => refusal(action, job(more)))).toEqual(refusals);
  });

  it("by somebody who may only look is nothing", () => {
    expect(refusal("cancel", job({ editable: false }))).toContain("permission");
  });
});

describe("the story", () => {
  it("is told from the newest to the oldest, and each thing once", () => {
    const at = (second: number) => `2013-01-01T00:00:0${second}Z`;
    const transition = {
      at: at(1),
      source: "A",
      target: "B",
      version: 1,
      before: null,
      after: null,
      tier: null,
      reason: "why",
    };
    const entries = entriesOf({
      transitions: [transition],
      decisions: [
        { at: at(2), state: "B", reason: "not yet" },
        { at: at(1), state: "A", reason: "why" },
      ],
    });
    expect(entries.map(({ kind, reason }) => [kind, reason])).toEqual([
      ["decision", "not yet"],
      ["transition", "why"],
    ]);
  });

  it("shows Python's values as people write them", () => {
    expect(plain("{'read': 2, 'a b': 3} -> {'read': 4} possible")).toBe("read 2, a b 3 → read 4 possible");
    expect(plain("file {name} -> x")).toBe("file {name} → x");
  });

  it("names the vertices that change, if there are several", () => {
    expect(change({ job: 2 }, { job: 4 })).toBe("2 → 4");
    expect(change({ a: 1, b: 1 }, { a: 1, b: 3 })).toBe("b 1 → 3");
    expect(change({ a: 1 }, null)).toBe("1 → none");
    expect(change(null, null)).toBeNull();
  });
});

describe("the state diagram", () => {
  it("has a place and words for every state of the scheduler, no two at the same place", () => {
    expect(NODES.map(({ name }) => name)).toEqual(STATE_NAMES);
    expect(new Set(NODES.map(({ x, y }) => `${x} ${y}`)).size).toBe(NODES.length);
  });

  it("has the scheduler's transitions", () => {
    const ends = EDGES.map(({ source, target }) => `${source} ${target}`);
    expect(ends).toContain("Deploying Executing");
    expect(ends).not.toContain("Finished Created");
  });
});

describe("answers that are errors", () => {
  it("tell what RFC 9457 has", () => {
    const problem = problemOf(400, "Bad Request", '{"title": "T", "detail": "D", "errors": ["a", 1, "b"]}');
    expect([problem.title, problem.detail, problem.errors]).toEqual(["T", "D", ["a", "b"]]);
  });

  it.each(["<html>", "", "null", "[]"])("are told even if they are %j", (text) => {
    expect(problemOf(502, "Bad Gateway", text).detail).toBe("The server answered 502 Bad Gateway.");
  });

  it("are not asked for again if the server has understood", () => {
    expect(mayRetry(0, problemOf(403, "Forbidden", ""))).toBe(false);
    expect(mayRetry(0, problemOf(503, "Unavailable", ""))).toBe(true);
    expect(mayRetry(2, new Error("again"))).toBe(false);
  });
});

it("links to web pages only", () => {
  expect(["https://a/b", "javascript:alert(1)", "data:text/html,x", "nothing"].map(isWeb)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

it("follows Airflow's theme, or else the system's", () => {
  expect([
    resolved("dark", false),
    resolved("light", true),
    resolved("system", true),
    resolved(null, false),
  ]).toEqual(["dark", "light", "dark", "light"]);
});

it("shows options with their units", () => {
  expect(optionText("stop_timeout", 90)).toBe("1 m 30 s");
  expect(optionText("max_failed_batches", 2)).toBe("2");
  expect(optionText("slot_request_max_interval", 0.02)).toBe("20 ms");
  expect(optionText("restart_strategy", { type: "FixedDelay", attempts: 3 })).toBe("FixedDelay, attempts 3");
  expect(optionText("recoverable_failures", [])).toBe("none");
});
