import { expect, it } from "vitest";
import { isWeb } from "./webAddress";

it("links to web pages only", () => {
  expect(["https://a/b", "javascript:alert(1)", "data:text/html,x", "nothing"].map(isWeb)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
