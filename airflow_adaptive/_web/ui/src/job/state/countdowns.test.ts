import { describe, expect, it } from "vitest";
import { exampleJob } from "../../api/exampleJob";
import { countdowns } from "./countdowns";

const NOW = Date.parse("2013-01-01T00:00:00Z");

describe("countdowns", () => {
  it("are sorted by their ends, without expired waits", () => {
    const details = exampleJob({
      deadlines: [{ name: "SLOT_IDLE", due: "2013-01-01T00:00:50Z" }],
      waiting: {
        phase: "Stabilizing",
        cooldown_ends: "2012-12-31T23:59:00Z",
        first_change: "2012-12-31T23:59:50Z",
      },
      options: { executing_stabilization_timeout: 30 },
    });
    expect(countdowns(details, NOW).map(({ id }) => id)).toEqual(["stabilization", "SLOT_IDLE"]);
  });

  it("contain the cooldown, and the backoff once", () => {
    const details = exampleJob({
      deadlines: [{ name: "BACKOFF", due: "2013-01-01T00:00:09Z" }],
      waiting: { phase: "Cooldown", cooldown_ends: "2013-01-01T00:00:30Z", first_change: null },
      backoff: { seconds: 9, ends: "2013-01-01T00:00:09Z" },
    });
    expect(countdowns(details, NOW).map(({ id }) => id)).toEqual(["BACKOFF", "cooldown"]);
  });
});
