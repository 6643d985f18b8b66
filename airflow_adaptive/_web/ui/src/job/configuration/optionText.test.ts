import { expect, it } from "vitest";
import { optionText } from "./optionText";

it("shows options with their units", () => {
  expect(optionText("stop_timeout", 90)).toBe("1 m 30 s");
  expect(optionText("max_failed_batches", 2)).toBe("2");
  expect(optionText("slot_request_max_interval", 0.02)).toBe("20 ms");
  expect(optionText("restart_strategy", { type: "FixedDelay", attempts: 3 })).toBe("FixedDelay, attempts 3");
  expect(optionText("recoverable_failures", [])).toBe("none");
});
