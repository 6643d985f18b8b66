import { describe, expect, it } from "vitest";
import { pointsOf } from "../../lib/scheduler/timeSeries";
import { kindsWith } from "./chartOptions";

describe("the charts of a job", () => {
  it("are those whose values are known, with the lines whose values are known", () => {
    const points = pointsOf({
      step: 10,
      columns: ["at", "slots", "unread_files"],
      points: [
        [0, 2, null],
        [10, 2, 7],
      ],
    });
    const titles = kindsWith(points).map(({ title, lines }) => [title, ...lines.map((line) => line.label)]);
    expect(titles).toEqual([
      ["Slots", "in use"],
      ["Backlog", "files waiting"],
    ]);
  });
});
