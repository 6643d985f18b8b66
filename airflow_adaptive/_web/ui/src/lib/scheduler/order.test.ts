import { describe, expect, it } from "vitest";
import { exampleJob } from "../../api/exampleJob";
import { sortedBy } from "./order";

const late = (lag_s: number) => ({ at: 0, lag_s }) as NonNullable<ReturnType<typeof exampleJob>["metrics"]>;

const jobs = [
  exampleJob({ job: "a", metrics: null, failures: 0 }),
  exampleJob({ job: "b", metrics: late(5), failures: 2 }),
  exampleJob({ job: "c", metrics: late(60), failures: 0 }),
];

describe("the order of the jobs", () => {
  it.each([
    [null, "abc"],
    ["Lag", "cba"],
    ["Failures", "bac"],
    ["State", "abc"],
  ])("by %s is %s, with unknown values at the end", (column, order) => {
    const names = sortedBy(jobs, column).map((job) => job.job);
    expect(names.join("")).toBe(order);
  });
});
