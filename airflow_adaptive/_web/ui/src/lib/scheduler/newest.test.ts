import { expect, it } from "vitest";
import type { TimelineDetails } from "../../api/types";
import { newest } from "./newest";

it("is the newest entry in any order", () => {
  const entry = (second: number) => ({ at: `2013-01-01T00:00:0${second}Z`, reason: `${second}` });
  const timeline = { decisions: [entry(3), entry(1)], transitions: [entry(2), entry(4)] } as TimelineDetails;
  expect(newest(timeline)?.reason).toBe("4");
  expect(
    newest({ decisions: [entry(3), entry(1)], transitions: [] } as unknown as TimelineDetails)?.reason,
  ).toBe("3");
  expect(newest(undefined)).toBeNull();
  const ignored = { ...entry(9), reason_code: "EVENT_IGNORED" };
  expect(
    newest({ decisions: [ignored, entry(1)], transitions: [] } as unknown as TimelineDetails)?.reason,
  ).toBe("1");
});
