import type { Deployment, DeploymentStage, Effect, QueryPreview, StateSchema } from "../../api/types";

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

const listed = (names: string[]): string => names.join(", ") || "–";

const schemaText = (state: StateSchema | undefined): string => {
  if (state === undefined) return "–";
  const count =
    state.partitions === null
      ? ""
      : `, ${state.partitions} ${state.partitions === 1 ? "partition" : "partitions"}`;
  return `${state.operator}: key (${state.key || "unknown"}), value (${state.value || "unknown"})${count}`;
};

/** What happens to a query and its state. */
export const queryText = ({ name, is_new, prepared, state_reason }: QueryPreview): string => {
  const kind = prepared === null ? "Removed query" : is_new ? "New query" : "Query";
  return `${kind} ${name}: ${state_reason}`;
};

/** Sources and state of a query: what, before, and after a deployment. */
export const queryRows = ({ name, running_sources, prepared }: QueryPreview): [string, string, string][] => {
  const [before, after] = [prepared?.state_before ?? [], prepared?.state_after ?? []];
  return [
    [`sources of ${name}`, listed(running_sources), listed(prepared?.sources ?? [])],
    ...(before.length > after.length ? before : after).map((_, index): [string, string, string] => [
      `state of ${name}`,
      schemaText(before[index]),
      schemaText(after[index]),
    ]),
  ];
};

/** The differences of the plan of a query. */
export const planText = ({ plan_changes }: QueryPreview): string => {
  if (plan_changes === null) return "unknown";
  return plan_changes.length > 0 ? plan_changes.join("\n") : "the same operators and columns";
};
