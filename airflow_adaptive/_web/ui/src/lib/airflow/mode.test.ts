import { expect, it } from "vitest";
import { resolved } from "./mode";

it("follows Airflow's theme, or else the system's", () => {
  expect([
    resolved("dark", false),
    resolved("light", true),
    resolved("system", true),
    resolved(null, false),
  ]).toEqual(["dark", "light", "dark", "light"]);
});
