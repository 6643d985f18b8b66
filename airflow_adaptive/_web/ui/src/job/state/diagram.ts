/** Layout of the state diagram. The build generates the edges from the transition table of the scheduler. */
import machine from "../../generated/transitions.json";

export interface Node {
  name: string;
  x: number;
  y: number;
}

export interface Edge {
  source: string;
  target: string;
  events: string[];
  path: string;
  isShort: boolean;
}

export const WIDTH = 880;
export const HEIGHT = 258;
export const NODE_WIDTH = 112;
export const NODE_HEIGHT = 44;

const POSITIONS: Record<string, [number, number]> = {
  Created: [64, 120],
  WaitingForResources: [216, 120],
  Deploying: [368, 120],
  Executing: [528, 120],
  RestartingLocally: [528, 32],
  Restarting: [368, 212],
  StopWithSavepoint: [680, 32],
  Canceling: [680, 120],
  Failing: [680, 212],
  Finished: [816, 120],
};

/** The states of the table. States without a position form a row at the bottom. */
export const NODES: Node[] = machine.states.map((name, index) => {
  const [x, y] = POSITIONS[name] ?? [64 + 130 * (index % 6), HEIGHT - 24];
  return { name, x, y };
});

const nodeOf = (name: string): Node | undefined => NODES.find((node) => node.name === name);

const table: Record<string, Record<string, string[]>> = machine.transitions;

/** Bend of an edge that would cross other states: above the states from left to right, otherwise below. */
const longBend = (from: Node, to: Node): number => {
  const distance = Math.abs(to.x - from.x);
  return (from.y > to.y ? 1 : -1) * (60 + distance / 8);
};

const crosses = (node: Node, from: Node, to: Node): boolean => {
  for (let step = 1; step < 20; step += 1) {
    const x = from.x + ((to.x - from.x) * step) / 20;
    const y = from.y + ((to.y - from.y) * step) / 20;
    if (Math.abs(x - node.x) < NODE_WIDTH / 2 && Math.abs(y - node.y) < NODE_HEIGHT / 2) return true;
  }
  return false;
};

const curve = (from: Node, to: Node, bend: number): string => {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const middle = {
    x: (from.x + to.x) / 2 - (dy / length) * bend,
    y: (from.y + to.y) / 2 + (dx / length) * bend,
  };
  const start = border(from, middle);
  const end = border(to, middle);
  return `M ${round(start.x)} ${round(start.y)} Q ${round(middle.x)} ${round(middle.y)} ${round(end.x)} ${round(end.y)}`;
};

/** Point at which a line from the center of a node leaves the node. */
const border = (node: Node, toward: { x: number; y: number }): { x: number; y: number } => {
  const [dx, dy] = [toward.x - node.x, toward.y - node.y];
  const scale = Math.min(
    (NODE_WIDTH / 2 + 3) / Math.max(Math.abs(dx), 0.001),
    (NODE_HEIGHT / 2 + 3) / Math.max(Math.abs(dy), 0.001),
  );
  return { x: node.x + dx * scale, y: node.y + dy * scale };
};

const round = (value: number): number => Math.round(value * 10) / 10;

const edge = (from: Node, to: Node, events: string[]): Edge => {
  const isShort = !NODES.some((node) => node !== from && node !== to && crosses(node, from, to));
  const bend = isShort ? (table[to.name]?.[from.name] === undefined ? 0 : 14) : longBend(from, to);
  return { source: from.name, target: to.name, events, path: curve(from, to, bend), isShort };
};

/** All edges of the table. */
export const EDGES: Edge[] = Object.entries(table).flatMap(([source, targets]) =>
  Object.entries(targets).flatMap(([target, events]) => {
    const from = nodeOf(source);
    const to = nodeOf(target);
    return from === undefined || to === undefined ? [] : [edge(from, to, events)];
  }),
);

const EVENTS: Record<string, string> = {
  SchedulingStarted: "scheduling starts",
  SlotsChanged: "the slots change",
  RequirementsChanged: "requirements change",
  JobRedeployed: "the job is redeployed",
  DriverPrepared: "the driver of a new deployment is prepared",
  MoveAnnounced: "the driver will have to leave its machine",
  TimerFired: "a timer fires",
  DriverSubmitted: "a driver is submitted",
  DriverEnded: "the driver ends",
  DriverHeartbeatTimedOut: "the heartbeat of the driver times out",
  PlanActivated: "the driver activates the plan",
  PlanRejected: "the driver rejects the plan",
  BatchCommitted: "a batch is committed",
  QueryFailed: "a query fails",
  SavepointCompleted: "all queries have stopped at a batch boundary",
  SavepointFailed: "a query does not stop at a batch boundary",
  JobCompleted: "all input is processed",
  CancelRequested: "a user cancels the job",
  SuspendRequested: "a user suspends the job",
};

/** Human-readable name of an event of the table. */
export const eventText = (event: string): string => EVENTS[event] ?? event;
