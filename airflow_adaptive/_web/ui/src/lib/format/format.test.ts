import { describe, expect, it } from "vitest";
import { ago, backlogText, count, duration, millis, rate, secondsBetween } from "./format";

describe("numbers", () => {
  it.each([
    [null, "–"],
    [Number.NaN, "–"],
    [0, "0"],
    [9_999, "9,999"],
    [12_345, "12.3K"],
    [9e15, "9000T"],
  ])("shows the count %s as %s", (value, text) => expect(count(value)).toBe(text));

  it.each([
    [null, null, "–"],
    [12_345, null, "12.3K"],
    [null, 0, "0 files"],
    [7, 1, "7, 1 file"],
  ])("shows %s rows and %s files that wait as %s", (backlog, unread_files, text) =>
    expect(backlogText({ backlog, unread_files })).toBe(text),
  );

  it.each([
    [0, "0/s"],
    [0.25, "0.25/s"],
    [1_234.5, "1,235/s"],
    [2_000_000, "2M/s"],
    [undefined, "–"],
  ])("shows the rate %s as %s", (value, text) => expect(rate(value)).toBe(text));
});

describe("times", () => {
  it.each([
    [0, "0 s"],
    [0.9, "0 s"],
    [59, "59 s"],
    [60, "1 m"],
    [3_725, "1 h 2 m"],
    [90_000, "1 d 1 h"],
    [-5, "0 s"],
    [9e12, "more than 10 years"],
    [Number.POSITIVE_INFINITY, "–"],
  ])("shows %s seconds as %s", (value, text) => expect(duration(value)).toBe(text));

  it.each([
    [12, "12 ms"],
    [1_650, "1.65 s"],
    [75_000, "1 m 15 s"],
  ])("shows %s milliseconds as %s", (value, text) => expect(millis(value)).toBe(text));

  it("formats the time since an instant, without seconds after ten minutes", () => {
    const now = Date.parse("2013-01-01T01:00:00Z");
    expect(ago("2013-01-01T00:59:59Z", now)).toBe("just now");
    expect(ago("2013-01-01T00:58:50Z", now)).toBe("1 m 10 s ago");
    expect(ago("2013-01-01T00:29:01Z", now)).toBe("30 m ago");
    expect(ago("not a time", now)).toBe("–");
  });

  it("has no duration since a missing instant", () => expect(secondsBetween(null, 0)).toBeNull());
});
