import { describe, expect, it } from "vitest";
import type { Vertex } from "../../api/types";
import { bodyOf, draftOf, violations, isSame, isValid, rangesOf, wholeNumber } from "./draft";

const VERTEX: Vertex = {
  name: "job",
  lower: 1,
  upper: 4,
  max_parallelism: 8,
  stateful: true,
  slot_sharing_group: "default",
  inputs: [],
};

describe("bounds that are typed", () => {
  it.each([
    ["1", "8", {}],
    [" 2 ", "+3", {}],
    ["5", "4", { upper: "Must be at least the lower bound, 5." }],
    ["0", "4", { lower: "Must be at least 1." }],
    ["-1", "4", { lower: "Must be at least 1." }],
    ["1", "9", { upper: "Must be at most 8, the maximum parallelism." }],
    ["", "4", { lower: "Must be a whole number." }],
    ["1.5", "4", { lower: "Must be a whole number." }],
    ["1e3", "NaN", { lower: "Must be a whole number.", upper: "Must be a whole number." }],
    ["1", "99999999999999999999", { upper: "Must be a whole number." }],
  ])("%s to %s", (lower, upper, wrong) => expect(violations({ lower, upper }, VERTEX)).toEqual(wrong));

  it("are whole numbers only if nothing else is there", () => {
    expect(["7", "0x7", "7a", "٣", "١"].map(wholeNumber)).toEqual([7, null, null, null, null]);
  });
});

describe("a draft", () => {
  const draft = draftOf({ job: { lower: 1, upper: 4 } });

  it("becomes FLIP-291's body, and comes back from it", () => {
    expect(bodyOf(draft)).toEqual({ job: { parallelism: { lowerBound: 1, upperBound: 4 } } });
    expect(draftOf(rangesOf(bodyOf(draft)))).toEqual(draft);
  });

  it("is the same however its numbers are written", () => {
    expect(isSame(draft, { job: { lower: " 1", upper: "04" } })).toBe(true);
    expect(isSame(draft, { job: { lower: "1", upper: "5" } })).toBe(false);
    expect(isSame(draft, {})).toBe(false);
  });

  it("is sound if it has every vertex", () => {
    expect(isValid(draft, [VERTEX])).toBe(true);
    expect(isValid(draft, [VERTEX, { ...VERTEX, name: "other" }])).toBe(false);
  });
});
