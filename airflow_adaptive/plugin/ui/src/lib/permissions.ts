/** What may be asked of a job now, and why not. The server has the last word. */
import type { JobDetails } from "../api/types";

export type Action = "requirements" | "suspend" | "resume" | "cancel";

const NOT_ALLOWED = "This needs the permission to edit every DAG that names the job.";

/** Why an action is not possible; null if it is. */
export const refusal = (action: Action, details: JobDetails): string | null => {
  if (details.editable === false) return NOT_ALLOWED;
  switch (action) {
    case "requirements":
      return requirementsRefusal(details);
    case "suspend":
      return stopRefusal(details) ?? (details.desired_state === "suspended" ? "It is being suspended already." : null);
    case "cancel":
      return stopRefusal(details);
    case "resume":
      return resumeRefusal(details);
  }
};

const requirementsRefusal = ({ job_type, outcome, reactive, vertices }: JobDetails): string | null => {
  if (job_type === "BATCH") return "A batch runs on what it was submitted with.";
  if (reactive) return "A reactive job takes all slots that there are.";
  if (outcome !== null && outcome !== "SUSPENDED") return "The job has ended: run its DAG again.";
  return vertices.length === 0 ? "The job has not shown its vertices yet." : null;
};

const stopRefusal = ({ outcome, desired_state }: JobDetails): string | null => {
  if (outcome !== null) return "The job has ended.";
  return desired_state === "canceled" ? "It is being canceled already." : null;
};

const resumeRefusal = ({ outcome, desired_state, state }: JobDetails): string | null => {
  if (outcome === "SUSPENDED") return null;
  if (outcome !== null) return "The job has ended: run its DAG again.";
  if (desired_state !== "suspended") return "The job is not suspended.";
  return state === "StopWithSavepoint" ? "It is being suspended: resume it when that is done." : null;
};
