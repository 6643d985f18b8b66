import { expect, it } from "vitest";
import type { Deployment } from "../../api/types";
import { planText, queryRows, queryText, stateText, valueText } from "./changeText";

it.each([
  [null, "–"],
  ["2g", "2g"],
  [[1, 4], "[1,4]"],
  [false, "false"],
])("the value %j is displayed as %s", (value, text) => expect(valueText(value)).toBe(text));

const state = { operator: "stateStoreSave", key: "id bigint", value: "", partitions: 4 };

const prepared = {
  name: "hours",
  sources: ["KafkaV2"],
  state_before: [],
  state_after: [state],
  plan: [],
  unchecked: "",
};

const query = {
  name: "hours",
  is_new: false,
  running_sources: [],
  prepared,
  state_reason: "it starts without state",
  plan_changes: ["-Project", "+Filter"],
};

it("a query has its sources and its state before and after the deployment", () =>
  expect(queryRows(query)).toEqual([
    ["sources of hours", "–", "KafkaV2"],
    ["state of hours", "–", "stateStoreSave: key (id bigint), value (unknown), 4 partitions"],
  ]));

it.each([
  [{}, "Query hours: it starts without state"],
  [{ is_new: true }, "New query hours: it starts without state"],
  [{ prepared: null }, "Removed query hours: it starts without state"],
])("a query tells what happens to it and its state (%j)", (changes, text) =>
  expect(queryText({ ...query, ...changes })).toBe(text),
);

it.each([
  [query.plan_changes, "-Project\n+Filter"],
  [[], "the same operators and columns"],
  [null, "unknown"],
])("the plan %j is displayed as %s", (plan_changes, text) =>
  expect(planText({ ...query, plan_changes })).toBe(text),
);

it.each([
  [true, "It keeps the state: why"],
  [false, "It does not keep the state: why"],
  [null, "Whether it keeps the state is unknown: why"],
])("whether the state is kept (%j) has a reason", (keeps_state, text) =>
  expect(stateText({ keeps_state, state_reason: "why" } as unknown as Deployment)).toBe(text),
);
