import type { Deployment, DeploymentStage, Effect } from "../../api/types";

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

/** Whether the deployment keeps the state, with the reason. */
export const stateText = ({ keeps_state, state_reason }: Deployment): string => {
  if (keeps_state === null) return `Whether it keeps the state is unknown: ${state_reason}`;
  return `${keeps_state ? "It keeps the state" : "It does not keep the state"}: ${state_reason}`;
};

const listed = (names: string[]): string => names.join(", ") || "none";

/** What a prepared driver knows of its queries, and the queries that it does not have. */
export const queryTexts = ({ queries, removed_queries }: Deployment): string[] => [
  ...queries.map(({ name, is_new, sources, operators, state, unchecked }) => {
    const known = `sources ${listed(sources)}; state operators ${listed(operators)}, of its checkpoint ${listed(state)}`;
    return `${is_new ? "New query" : "Query"} ${name}: ${unchecked || known}`;
  }),
  ...removed_queries.map((name) => `Query ${name} is removed`),
];
