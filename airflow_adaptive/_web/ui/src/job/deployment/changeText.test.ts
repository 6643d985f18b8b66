import { expect, it } from "vitest";
import { valueText } from "./changeText";

it.each([
  [null, "–"],
  ["2g", "2g"],
  [[1, 4], "[1,4]"],
  [false, "false"],
])("the value %j is displayed as %s", (value, text) => expect(valueText(value)).toBe(text));
