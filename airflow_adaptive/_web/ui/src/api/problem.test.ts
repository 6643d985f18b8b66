import { describe, expect, it } from "vitest";
import { mayRetry, problemOf } from "./problem";

describe("error responses", () => {
  it("contain the fields of RFC 9457", () => {
    const problem = problemOf(400, "Bad Request", '{"title": "T", "detail": "D", "errors": ["a", 1, "b"]}');
    expect([problem.title, problem.detail, problem.errors]).toEqual(["T", "D", ["a", "b"]]);
  });

  it.each(["<html>", "", "null", "[]"])("yield a problem even if the body is %j", (text) => {
    expect(problemOf(502, "Bad Gateway", text).detail).toBe("The server responded with 502 Bad Gateway.");
  });

  it("are not retried after the server has refused the request", () => {
    expect(mayRetry(0, problemOf(403, "Forbidden", ""))).toBe(false);
    expect(mayRetry(0, problemOf(503, "Unavailable", ""))).toBe(true);
    expect(mayRetry(2, new Error("again"))).toBe(false);
  });
});
