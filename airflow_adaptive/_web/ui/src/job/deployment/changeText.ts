import type { DeploymentStage, Effect } from "../../api/types";

/** What each stage of a deployment is called. */
export const STAGES: Record<DeploymentStage, string> = {
  PREPARING: "Its driver is being prepared",
  PREPARED: "Its driver is prepared",
  ENDS_FIRST: "The running driver ends first",
  REFUSED: "Refused",
  NEXT_START: "Waits for the next start",
};

/** What a change needs to take effect. */
export const EFFECTS: Record<Effect, string> = {
  AT_ONCE: "nothing",
  STATE: "new state partitions",
  DRIVER: "a new driver",
  REFUSED: "the task refuses it",
};

/** The value of a parameter before or after a change. */
export const valueText = (value: unknown): string => {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
};
