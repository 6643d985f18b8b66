import { describe, expect, it } from "vitest";
import type { Transition } from "../../api/types";
import { codesOf, codeText, entriesOf } from "./entries";

describe("the entries", () => {
  it("are sorted from the newest to the oldest, without repetitions", () => {
    const at = (second: number) => `2013-01-01T00:00:0${second}Z`;
    const transition: Transition = {
      at: at(1),
      source: "A",
      target: "B",
      version: 1,
      before: null,
      after: null,
      tier: null,
      reason_code: "PLAN_ACTIVATED",
      reason: "why",
    };
    const entries = entriesOf({
      transitions: [transition],
      decisions: [
        { at: at(2), state: "B", reason_code: "COOLDOWN", reason: "not yet" },
        { at: at(1), state: "A", reason_code: "PLAN_ACTIVATED", reason: "why" },
      ],
    });
    expect(entries.map(({ kind, reason }) => [kind, reason])).toEqual([
      ["decision", "not yet"],
      ["transition", "why"],
    ]);
    expect(codesOf(entries)).toEqual(["COOLDOWN", "PLAN_ACTIVATED"]);
  });

  it("have readable reason codes", () => expect(codeText("PLAN_ACTIVATED")).toBe("Plan activated"));
});
