import { expect, it } from "vitest";
import { slotHours } from "./slotHours";
import type { Point } from "./timeSeries";

it("sums the slots and the upper bounds of today's points", () => {
  const now = new Date(2013, 0, 2, 1);
  const at = new Date(2013, 0, 2, 0).getTime() / 1_000;
  const point = (more: Partial<Point>) => ({ at, slots: 3, upper: 6, ...more }) as Point;
  const points = [
    point({ at: at - 600, slots: 8 }),
    point({}),
    point({ at: at + 600 }),
    point({ slots: null }),
  ];
  expect(slotHours(points, 600, now)).toEqual({ used: 1, maximum: 2 });
  expect(slotHours([], 600, now)).toBeNull();
});
