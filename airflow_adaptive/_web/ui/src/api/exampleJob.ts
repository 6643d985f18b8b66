import type { JobDetails } from "./types";

/** An executing job for unit tests. */
export const exampleJob = (more: Partial<JobDetails>): JobDetails =>
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
    restart_attempts: 0,
    wait: null,
    problem: null,
    abandoned: false,
    health: "keeps_up",
    options: {},
    ...more,
  }) as JobDetails;
