import { describe, expect, it } from "vitest";
import { expiryViolation, expiryQuery, NO_EXPIRY } from "./expiry";

const NOW = Date.parse("2026-01-01T00:00:00Z");

describe("the expiry of bounds", () => {
  it.each(["2h", "30 min", "1 d", "90", " 1.5 Hours "])("for %j", (text) => {
    expect(expiryViolation({ kind: "duration", text }, NOW)).toBeNull();
    expect(new URLSearchParams(expiryQuery({ kind: "duration", text })).get("duration")).toBe(text.trim());
  });

  it.each(["", "soon", "0 h", "-2 h", "2 weeks", "1e3"])("not for %j", (text) => {
    expect(expiryViolation({ kind: "duration", text }, NOW)).toContain("duration such as");
  });

  it("until a time of the viewer's zone, in the future", () => {
    const expiry = { kind: "until" as const, text: "2026-06-01T10:00" };
    expect(expiryViolation(expiry, NOW)).toBeNull();
    const sent = new URLSearchParams(expiryQuery(expiry)).get("until") ?? "";
    expect(Date.parse(sent)).toBe(new Date(2026, 5, 1, 10).getTime());
    expect(expiryViolation({ ...expiry, text: "" }, NOW)).toContain("date and a time");
    expect(expiryViolation({ ...expiry, text: "2025-06-01T10:00" }, NOW)).toContain("future");
  });

  it("until they are cleared", () => {
    expect(expiryViolation(NO_EXPIRY, NOW)).toBeNull();
    expect(expiryQuery(NO_EXPIRY)).toBe("");
  });
});
