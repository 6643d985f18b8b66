import { expect, it } from "vitest";
import { readable } from "./reasonText";

it("replaces Python's notation of values", () => {
  expect(readable("{'read': 2, 'a b': 3} -> {'read': 4} possible")).toBe("read 2, a b 3 → read 4 possible");
  expect(readable("file {name} -> x")).toBe("file {name} → x");
});
