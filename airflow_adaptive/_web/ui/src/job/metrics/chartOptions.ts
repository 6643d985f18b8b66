/** The charts and their Chart.js options. */
import type { ChartDataset, ChartOptions, Plugin } from "chart.js";
import type { AnnotationOptions } from "chartjs-plugin-annotation";
import type { Rescale } from "../../api/types";
import { count, duration, megabytes, millis, percent, rate, tick } from "../../lib/format/format";
import { type Point, timeTicks } from "../../lib/scheduler/timeSeries";
import type { Cursor } from "./cursor";
import type { ChartColors } from "./chartColors";

export interface Line {
  label: string;
  value: (point: Point) => number | null;
  color: keyof ChartColors;
  style?: "step" | "bound" | "band";
}

export interface ChartKind {
  id: string;
  title: string;
  lines: Line[];
  text: (value: number | null) => string;
  isWhole: boolean;
}

/** The charts with values, from top to bottom, and their lines with values. */
export const kindsWith = (points: Point[]): ChartKind[] =>
  KINDS.map((kind) => ({
    ...kind,
    lines: kind.lines.filter((line) => points.some((point) => line.value(point) !== null)),
  })).filter((kind) => kind.lines.length > 0);

const KINDS: ChartKind[] = [
  {
    id: "slots",
    title: "Slots",
    text: count,
    isWhole: true,
    lines: [
      { label: "in use", value: (point) => point.slots, color: "main", style: "step" },
      { label: "upper bound", value: (point) => point.upper, color: "bound", style: "bound" },
      { label: "lower bound", value: (point) => point.lower, color: "bound", style: "band" },
    ],
  },
  {
    id: "rates",
    title: "Rows per second",
    text: rate,
    isWhole: false,
    lines: [
      { label: "in", value: (point) => point.input, color: "main" },
      { label: "processed", value: (point) => point.processed, color: "second" },
    ],
  },
  {
    id: "batch",
    title: "Batch duration",
    text: millis,
    isWhole: false,
    lines: [{ label: "longest batch", value: (point) => point.batch_ms, color: "main" }],
  },
  {
    id: "backlog",
    title: "Backlog",
    text: count,
    isWhole: true,
    lines: [
      { label: "rows waiting", value: (point) => point.backlog, color: "warm" },
      { label: "files waiting", value: (point) => point.unread_files, color: "second" },
    ],
  },
  {
    id: "lag",
    title: "Lag",
    text: duration,
    isWhole: false,
    lines: [{ label: "age of the oldest unread row or file", value: (point) => point.lag_s, color: "warm" }],
  },
  {
    id: "heap",
    title: "Executor heap",
    text: megabytes,
    isWhole: false,
    lines: [
      {
        label: "peak of the largest executor since its start",
        value: (point) => point.heap_mb,
        color: "main",
      },
    ],
  },
  {
    id: "gc",
    title: "Garbage collection",
    text: percent,
    isWhole: false,
    lines: [{ label: "part of the time of the tasks", value: (point) => point.gc, color: "warm" }],
  },
];

/** Width of all value axes. The equal width aligns the charts. */
export const AXIS_WIDTH = 64;

/** The lines of a chart as data sets of Chart.js. */
export const datasetsOf = (kind: ChartKind, points: Point[], colors: ChartColors): ChartDataset<"line">[] =>
  kind.lines.map((line) => ({
    label: line.label,
    data: points.map((point) => ({ x: point.at, y: line.value(point) as number })),
    borderColor: colors[line.color],
    backgroundColor: line.style === "band" ? colors.band : colors[line.color],
    borderWidth: line.style === "bound" || line.style === "band" ? 1 : 1.75,
    borderDash: line.style === "bound" || line.style === "band" ? [4, 3] : [],
    stepped: line.style === undefined ? false : "before",
    fill: line.style === "band" ? "-1" : false,
    pointRadius: 0,
    pointHoverRadius: 0,
    spanGaps: false,
  }));

interface Frame {
  from: number;
  to: number;
  colors: ChartColors;
  rescales: Rescale[];
  isLast: boolean;
}

/** Options of a chart. All charts share the time axis, and only the last chart labels the axis. */
export const optionsOf = (kind: ChartKind, frame: Frame): ChartOptions<"line"> => ({
  animation: false,
  responsive: true,
  maintainAspectRatio: false,
  normalized: true,
  parsing: false,
  events: [],
  layout: { autoPadding: false, padding: { right: 8, top: 4 } },
  plugins: {
    legend: { display: false },
    tooltip: { enabled: false },
    annotation: { animations: {}, annotations: marksOf(frame) },
  },
  scales: {
    x: {
      type: "linear",
      min: frame.from,
      max: frame.to,
      border: { display: false },
      grid: { color: frame.colors.grid, drawTicks: false },
      afterBuildTicks: (axis) => {
        const tickCount = Math.max(2, Math.floor(axis.width / 90));
        axis.ticks = timeTicks(frame.from, frame.to, tickCount).map((value) => ({ value }));
      },
      afterFit: (axis) => {
        // The labels of the last chart would make it narrower than the others.
        axis.paddingLeft = axis.paddingRight = 0;
      },
      ticks: {
        display: frame.isLast,
        align: "inner",
        color: frame.colors.text,
        maxRotation: 0,
        padding: 6,
        font: { size: 11 },
        callback: (value) => tick(Number(value), frame.to - frame.from),
      },
    },
    y: {
      beginAtZero: true,
      grace: "8%",
      border: { display: false },
      grid: { color: frame.colors.grid, drawTicks: false },
      afterFit: (axis) => {
        axis.width = AXIS_WIDTH;
      },
      ticks: {
        color: frame.colors.text,
        maxTicksLimit: 4,
        padding: 8,
        font: { size: 11 },
        ...(kind.isWhole ? { precision: 0 } : {}),
        callback: (value) => kind.text(Number(value)),
      },
    },
  },
});

/** A vertical line at each rescale, in red at a failed rescale. */
const marksOf = ({ rescales, from, to, colors }: Frame): Record<string, AnnotationOptions> =>
  Object.fromEntries(
    rescales.flatMap((rescale) => {
      const at = Date.parse(rescale.end ?? rescale.start) / 1_000;
      if (rescale.terminal_state === "IGNORED" || at < from || at > to) return [];
      const color = rescale.terminal_state === "FAILED" ? colors.bad : colors.mark;
      const mark: AnnotationOptions = {
        type: "line",
        scaleID: "x",
        value: at,
        borderColor: color,
        borderWidth: 1.25,
        borderDash: rescale.terminal_state === null ? [3, 3] : [],
      };
      return [[`rescale-${rescale.number}`, mark]];
    }),
  );

/** Draws the shared cursor over a chart. */
export const cursorPlugin = (cursor: Cursor, color: string): Plugin<"line"> => ({
  id: "cursor",
  afterDraw: ({ ctx, chartArea, scales }) => {
    const at = cursor.at();
    const axis = scales["x"];
    if (at === null || axis === undefined || at < axis.min || at > axis.max) return;
    const x = axis.getPixelForValue(at);
    ctx.save();
    ctx.strokeStyle = color;
    ctx.lineWidth = 1;
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.restore();
  },
});
