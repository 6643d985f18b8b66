import { expect, it } from "vitest";
import type { Deployment } from "../../api/types";
import { queryTexts, stateText, valueText } from "./changeText";

it.each([
  [null, "–"],
  ["2g", "2g"],
  [[1, 4], "[1,4]"],
  [false, "false"],
])("the value %j is displayed as %s", (value, text) => expect(valueText(value)).toBe(text));

const query = {
  name: "hours",
  is_new: false,
  sources: ["KafkaV2"],
  running_sources: ["KafkaV2"],
  operators: ["dedupe"],
  state: [],
  unchecked: "",
};

it("a prepared driver names its queries, and those that it does not have", () => {
  const other = { ...query, name: "new", is_new: true, unchecked: "no copy is run" };
  expect(queryTexts({ queries: [query, other], removed_queries: ["old"] } as unknown as Deployment)).toEqual([
    "Query hours: sources KafkaV2; state operators dedupe, of its checkpoint none",
    "New query new: no copy is run",
    "Query old is removed",
  ]);
});

it.each([
  [true, "It keeps the state: why"],
  [false, "It does not keep the state: why"],
  [null, "Whether it keeps the state is unknown: why"],
])("whether the state is kept (%j) has a reason", (keeps_state, text) =>
  expect(stateText({ keeps_state, state_reason: "why" } as unknown as Deployment)).toBe(text),
);
