import { describe, expect, it } from "vitest";
import type { Metrics } from "../../api/types";
import {
  merged,
  nearest,
  pointsOf,
  spans,
  sparklineOf,
  timeTicks,
  within,
  withGaps,
  zoomed,
} from "./timeSeries";

const page = (...ats: number[]): Metrics => ({
  step: 10,
  columns: ["at", "slots", "state"],
  points: ats.map((at) => [at, 2, at < 40 ? "Deploying" : "Executing"]),
});

describe("metrics over time", () => {
  it("are read by the names of their columns, with null for missing columns and without points that have no time", () => {
    const read = pointsOf({
      step: 10,
      columns: ["slots", "at"],
      points: [
        [2, 10],
        [3, null],
      ],
    });
    expect(read).toHaveLength(1);
    expect(read[0]).toMatchObject({ at: 10, slots: 2, backlog: null, unread_files: null, state: null });
  });

  it("break where steps are missing", () => {
    const ats = withGaps(pointsOf(page(0, 10, 50)), 10).map(({ at, slots }) => [at, slots]);
    expect(ats).toEqual([
      [0, 2],
      [10, 2],
      [20, null],
      [50, 2],
    ]);
  });

  it("are zoomed at the cursor, at most to two steps and within the range of all points", () => {
    const all = { from: 0, to: 100 };
    const half = zoomed(all, 80, 0.5, 10);
    expect(half).toEqual({ from: 40, to: 90 });
    expect(zoomed(half, 90, 0.1, 10)).toEqual({ from: 70, to: 90 });
    expect(within(all, { from: -20, to: 30 })).toEqual({ from: 0, to: 50 });
    expect(within(all, { from: 70, to: 120 })).toEqual({ from: 50, to: 100 });
    expect(within(all, zoomed(half, 80, 2, 10))).toBeNull();
  });

  it("show periods of the same state", () => {
    expect(spans(pointsOf(page(20, 30, 40, 50)), 10)).toEqual([
      { state: "Deploying", from: 20, to: 40 },
      { state: "Executing", from: 40, to: 60 },
    ]);
  });

  it("are found by the nearest time", () => {
    const points = pointsOf(page(0, 10, 20));
    expect([-5, 4, 6, 99].map((at) => nearest(points, at))).toEqual([0, 0, 1, 2]);
    expect(nearest([], 5)).toBe(-1);
  });
});

describe("new points", () => {
  it("replace the points that have changed, and follow the others", () => {
    expect(merged(page(0, 10, 20), page(20, 30)).points.map(([at]) => at)).toEqual([0, 10, 20, 30]);
  });

  it("change nothing if there are none, or if the columns differ", () => {
    const before = page(0, 10);
    expect(merged(before, page())).toBe(before);
    expect(merged(before, { ...page(20), columns: ["at"] })).toBe(before);
  });

  it("remove the oldest points", () => {
    const many = page(...Array.from({ length: 360 }, (_, index) => 10 * index));
    expect(merged(many, page(3_600)).points[0]?.[0]).toBe(10);
  });
});

it("puts few, round ticks on a time axis", () => {
  const ticks = timeTicks(1_000_030, 1_003_630, 6);
  expect(ticks.length).toBeLessThanOrEqual(6);
  expect(new Set(ticks.map((at) => at % 600))).toEqual(new Set([0]));
});

describe("the sparkline of slots", () => {
  const point = (at: number, slots: number | null) => ({ ...emptyPointAt(at), slots });
  const emptyPointAt = (at: number) =>
    pointsOf({ step: 600, columns: ["at"], points: [[at]] } as Metrics)[0] as ReturnType<
      typeof pointsOf
    >[number];

  it.each([
    [[], ""],
    [[point(0, 2)], ""],
    [[point(0, 1), point(600, 4), point(1200, 2)], "M0 15L50 0L100 10"],
    [[point(0, 4), point(600, null), point(1200, 2), point(2400, 2)], "M0 0M50 10L100 10"],
  ])("of %j", (points, path) => expect(sparklineOf(points, 100, 20).path).toBe(path));
});
