/** The actions that a job accepts now. The server checks each request again. */
import type { JobDetails } from "../../api/types";

export type Action = "requirements" | "suspend" | "resume" | "cancel";

const NOT_ALLOWED = "This needs the permission to edit every DAG that runs the job.";

/** The reason why an action is not possible; null if the action is possible. */
export const refusal = (action: Action, details: JobDetails): string | null => {
  if (details.editable === false) return NOT_ALLOWED;
  switch (action) {
    case "requirements":
      return requirementsRefusal(details);
    case "suspend":
      return (
        stopRefusal(details) ??
        (details.desired_state === "suspended" ? "The job is being suspended already." : null)
      );
    case "cancel":
      return stopRefusal(details);
    case "resume":
      return resumeRefusal(details);
  }
};

const requirementsRefusal = ({ job_type, outcome, reactive, vertices }: JobDetails): string | null => {
  if (job_type === "BATCH") return "A batch job keeps the resources with which it was submitted.";
  if (reactive) return "A reactive job uses all available slots.";
  if (outcome !== null && outcome !== "SUSPENDED") return "The job has ended. Run its DAG again.";
  return vertices.length === 0 ? "The job has not published its vertices yet." : null;
};

const stopRefusal = ({ outcome, desired_state }: JobDetails): string | null => {
  if (outcome !== null) return "The job has ended.";
  return desired_state === "canceled" ? "The job is being canceled already." : null;
};

const resumeRefusal = ({ outcome, desired_state, state }: JobDetails): string | null => {
  if (outcome === "SUSPENDED") return null;
  if (outcome !== null) return "The job has ended. Run its DAG again.";
  if (desired_state !== "suspended") return "The job is not suspended.";
  return state === "StopWithSavepoint"
    ? "The job is being suspended. Resume the job after it has stopped."
    : null;
};
