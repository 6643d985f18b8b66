/** Figures over time: pages of the API as points, and what the charts share. */
import type { Metrics } from "../api/types";

export interface Point {
  at: number;
  slots: number | null;
  lower: number | null;
  upper: number | null;
  input: number | null;
  processed: number | null;
  batch_ms: number | null;
  backlog: number | null;
  state: string | null;
}

const NUMBERS = ["slots", "lower", "upper", "input", "processed", "batch_ms", "backlog"] as const;

/** The points of a page, oldest first; columns that are missing are null. */
export const pointsOf = (page: Metrics): Point[] => {
  const position = new Map(page.columns.map((name, index) => [name, index]));
  const cell = (row: Metrics["points"][number], name: string) => row[position.get(name) ?? -1] ?? null;
  return page.points
    .map((row) => {
      const state = cell(row, "state");
      const numbers = Object.fromEntries(NUMBERS.map((name) => [name, numberOf(cell(row, name))]));
      return {
        ...numbers,
        at: numberOf(cell(row, "at")) ?? Number.NaN,
        state: state === null ? null : `${state}`,
      };
    })
    .filter((point) => Number.isFinite(point.at)) as Point[];
};

const numberOf = (value: number | string | null): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;

/** The same points with a hole wherever steps are missing, so that lines break there instead of bridging the gap. */
export const withGaps = (points: Point[], step: number): Point[] =>
  points.flatMap((point, index) => {
    const before = points[index - 1];
    return before !== undefined && point.at - before.at > 3 * step
      ? [hole(before.at + step), point]
      : [point];
  });

const hole = (at: number): Point => ({
  at,
  slots: null,
  lower: null,
  upper: null,
  input: null,
  processed: null,
  batch_ms: null,
  backlog: null,
  state: null,
});

export interface Span {
  state: string;
  from: number;
  to: number;
}

/** Stretches of time in which the state was the same. */
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

/** Index of the point that is nearest to a moment; -1 without points. */
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

/** Round moments for the ticks of a time axis, in the viewer's zone. */
export const timeTicks = (from: number, to: number, wanted: number): number[] => {
  const sizes = [10, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800];
  const size = sizes.find((candidate) => (to - from) / candidate <= wanted) ?? 345_600;
  const zone = new Date(from * 1_000).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  for (let at = Math.ceil((from - zone) / size) * size + zone; at <= to; at += size) ticks.push(at);
  return ticks;
};

/** Points kept of the finest resolution, as the server keeps them. */
const MOST_POINTS = 360;

/** A page with news: the last of its points may have grown, others follow. */
export const merged = (page: Metrics, news: Metrics): Metrics => {
  const at = page.columns.indexOf("at");
  const first = news.points[0]?.[at];
  if (typeof first !== "number" || page.columns.join() !== news.columns.join()) return page;
  const before = page.points.filter((point) => Number(point[at]) < first);
  return { ...page, points: [...before, ...news.points].slice(-MOST_POINTS) };
};
