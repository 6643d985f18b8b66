import { describe, expect, it } from "vitest";
import type { JobDetails } from "../../api/types";
import { refusal } from "./permissions";

const job = (more: Partial<JobDetails>): JobDetails =>
  ({
    job: "departures",
    job_type: "STREAMING",
    state: "Executing",
    outcome: null,
    desired_state: "running",
    editable: true,
    reactive: false,
    vertices: [{ name: "job" }],
    deadlines: [],
    waiting: null,
    backoff: null,
    options: {},
    ...more,
  }) as JobDetails;

describe("the possible actions", () => {
  it.each([
    [{}, [null, null, "The job is not suspended.", null]],
    [{ desired_state: "suspended" }, [null, "The job is being suspended already.", null, null]],
    [{ state: "Finished", outcome: "SUSPENDED" }, [null, "The job has ended.", null, "The job has ended."]],
    [
      { reactive: true },
      ["A reactive job uses all available slots.", null, "The job is not suspended.", null],
    ],
  ])("of a job that is %j", (more, refusals) => {
    const actions = ["requirements", "suspend", "resume", "cancel"] as const;
    expect(actions.map((action) => refusal(action, job(more)))).toEqual(refusals);
  });

  it("of a user who may only read are none", () => {
    expect(refusal("cancel", job({ editable: false }))).toContain("permission");
  });
});
