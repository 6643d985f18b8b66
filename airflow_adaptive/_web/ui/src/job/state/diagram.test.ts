import { describe, expect, it } from "vitest";
import { STATE_NAMES } from "../../lib/scheduler/states";
import { EDGES, eventText, NODES } from "./diagram";

describe("the state diagram", () => {
  it("has a distinct position and a label for every state of the scheduler", () => {
    expect(NODES.map(({ name }) => name)).toEqual(STATE_NAMES);
    expect(new Set(NODES.map(({ x, y }) => `${x} ${y}`)).size).toBe(NODES.length);
  });

  it("has the transitions of the scheduler", () => {
    const ends = EDGES.map(({ source, target }) => `${source} ${target}`);
    expect(ends).toContain("Deploying Executing");
    expect(ends).not.toContain("Finished Created");
  });

  it("has a text for every event of the scheduler", () => {
    const events = EDGES.flatMap((edge) => edge.events);
    expect(events.filter((event) => eventText(event) === event)).toEqual([]);
  });
});
