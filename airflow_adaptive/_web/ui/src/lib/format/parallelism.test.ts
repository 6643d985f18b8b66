import { expect, it } from "vitest";
import { change } from "./parallelism";

it("names the changed vertices of a graph with several vertices", () => {
  expect(change({ job: 2 }, { job: 4 })).toBe("2 → 4");
  expect(change({ a: 1, b: 1 }, { a: 1, b: 3 })).toBe("b 1 → 3");
  expect(change({ a: 1 }, null)).toBe("1 → none");
  expect(change(null, null)).toBeNull();
});
