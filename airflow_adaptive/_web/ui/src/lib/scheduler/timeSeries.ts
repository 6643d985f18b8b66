/** Metrics over time: pages of the API as points, and functions that the charts share. */
import type { Metrics } from "../../api/types";

export interface Point {
  at: number;
  slots: number | null;
  lower: number | null;
  upper: number | null;
  input: number | null;
  processed: number | null;
  batch_ms: number | null;
  backlog: number | null;
  lag_s: number | null;
  unread_files: number | null;
  gc: number | null;
  heap_mb: number | null;
  state: string | null;
}

const NUMBERS = [
  "slots",
  "lower",
  "upper",
  "input",
  "processed",
  "batch_ms",
  "backlog",
  "lag_s",
  "unread_files",
  "gc",
  "heap_mb",
] as const;

/** The points of a page, oldest first. The values of missing columns are null. */
export const pointsOf = (page: Metrics): Point[] => {
  const position = new Map(page.columns.map((name, index) => [name, index]));
  const cell = (row: unknown[], name: string): unknown => row[position.get(name) ?? -1] ?? null;
  return page.points
    .map((row) => {
      const state = cell(row, "state");
      const numbers = Object.fromEntries(NUMBERS.map((name) => [name, numberOf(cell(row, name))]));
      return {
        ...numbers,
        at: numberOf(cell(row, "at")) ?? Number.NaN,
        state: typeof state === "string" ? state : null,
      };
    })
    .filter((point) => Number.isFinite(point.at)) as Point[];
};

const numberOf = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;

/** The points with an empty point at each gap, so that the lines break instead of bridging the gap. */
export const withGaps = (points: Point[], step: number): Point[] =>
  points.flatMap((point, index) => {
    const before = points[index - 1];
    return before !== undefined && point.at - before.at > 3 * step
      ? [emptyPoint(before.at + step), point]
      : [point];
  });

const emptyPoint = (at: number): Point =>
  ({ ...Object.fromEntries(NUMBERS.map((name) => [name, null])), at, state: null }) as Point;

/** A time range of the charts, in seconds since the epoch. */
export interface Range {
  from: number;
  to: number;
}

/** The range that is `factor` times as long, with the same time at its cursor. */
export const zoomed = ({ from, to }: Range, at: number, factor: number, step: number): Range => {
  const length = Math.max(2 * step, factor * (to - from));
  const begin = at - ((at - from) / (to - from)) * length;
  return { from: begin, to: begin + length };
};

/** A range, moved into the range of all points; null if it is not shorter. */
export const within = (all: Range, { from, to }: Range): Range | null => {
  const begin = Math.max(all.from, Math.min(from, all.to - (to - from)));
  return to - from >= all.to - all.from ? null : { from: begin, to: begin + to - from };
};

export interface Span {
  state: string;
  from: number;
  to: number;
}

/** Periods with the same state. */
export const spans = (points: Point[], step: number): Span[] => {
  const found: Span[] = [];
  for (const point of points) {
    if (point.state === null) continue;
    const last = found.at(-1);
    if (last !== undefined && last.state === point.state && point.at - last.to <= 2 * step) {
      last.to = point.at + step;
    } else {
      found.push({ state: point.state, from: point.at, to: point.at + step });
    }
  }
  return found;
};

/** Index of the point nearest to a time; -1 without points. */
export const nearest = (points: Point[], at: number): number => {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.at ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  const after = points[low];
  const before = points[low - 1];
  if (after === undefined) return -1;
  return before !== undefined && at - before.at < after.at - at ? low - 1 : low;
};

/** Round times for the ticks of a time axis, in the time zone of the user. */
export const timeTicks = (from: number, to: number, tickCount: number): number[] => {
  const sizes = [10, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800];
  const size = sizes.find((candidate) => (to - from) / candidate <= tickCount) ?? 345_600;
  const zone = new Date(from * 1_000).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  for (let at = Math.ceil((from - zone) / size) * size + zone; at <= to; at += size) ticks.push(at);
  return ticks;
};

/** Number of points of the finest resolution, as on the server. */
const MAX_POINTS = 360;

/** A page with new points: the last old point may have changed, and further points follow. */
export const merged = (page: Metrics, newPoints: Metrics): Metrics => {
  const at = page.columns.indexOf("at");
  const first = newPoints.points[0]?.[at];
  if (typeof first !== "number" || page.columns.join() !== newPoints.columns.join()) return page;
  const before = page.points.filter((point) => Number(point[at]) < first);
  return { ...page, points: [...before, ...newPoints.points].slice(-MAX_POINTS) };
};

/** The slots of the points as the path of an SVG, and their highest number; the path is "" without two points. */
export const sparklineOf = (
  points: Point[],
  width: number,
  height: number,
): { path: string; highest: number } => {
  const known = points.filter((point) => point.slots !== null);
  const highest = Math.max(1, ...known.map((point) => point.slots ?? 0));
  const [first, last] = [known.at(0)?.at ?? 0, known.at(-1)?.at ?? 0];
  if (last === first) return { path: "", highest };
  let pen = "M";
  const path = points.map(({ at, slots }) => {
    if (slots === null) {
      pen = "M";
      return "";
    }
    const move = `${pen}${Math.round(((at - first) / (last - first)) * width)} ${Math.round((1 - slots / highest) * height)}`;
    pen = "L";
    return move;
  });
  return { path: path.join(""), highest };
};
