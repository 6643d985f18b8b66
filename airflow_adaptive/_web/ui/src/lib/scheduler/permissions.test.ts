import { describe, expect, it } from "vitest";
import { exampleJob } from "../../api/exampleJob";
import type { JobDetails } from "../../api/types";
import { refusal } from "./permissions";

describe("the possible actions", () => {
  it.each<[Partial<JobDetails>, (string | null)[]]>([
    [{}, [null, null, "The job is not suspended.", null]],
    [{ desired_state: "suspended" }, [null, "The job is being suspended already.", null, null]],
    [{ state: "Finished", outcome: "SUSPENDED" }, [null, "The job has ended.", null, "The job has ended."]],
    [
      { reactive: true },
      ["A reactive job uses all available slots.", null, "The job is not suspended.", null],
    ],
  ])("of a job that is %j", (more, refusals) => {
    const actions = ["requirements", "suspend", "resume", "cancel"] as const;
    expect(actions.map((action) => refusal(action, exampleJob(more)))).toEqual(refusals);
  });

  it("of a user who may only read are none", () => {
    expect(refusal("cancel", exampleJob({ editable: false }))).toContain("permission");
  });
});
