import { Box } from "@chakra-ui/react";
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from "react";
import { backlogText, count, duration, moment, rate } from "../../lib/format/format";
import { nearest, type Point, type Range, zoomed } from "../../lib/scheduler/timeSeries";
import { AXIS_WIDTH } from "./chartOptions";
import { type Cursor, useCursor } from "./cursor";

interface Props {
  cursor: Cursor;
  points: Point[];
  step: number;
  from: number;
  to: number;
  /** Called with the time range that the user has selected. */
  onZoom: (range: Range) => void;
  onReset: () => void;
  children: ReactNode;
}

/** Right padding of the charts. */
const PADDING = 8;

/** Area in which the pointer or the arrow keys set the cursor of the charts, and dragging or the keys + and - change their time range. */
export const TimeCursor = ({ cursor, points, step, from, to, onZoom, onReset, children }: Props) => {
  const at = useCursor(cursor);
  const [begin, setBegin] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const point = points[nearest(points, at ?? to)];
  const timeAt = (event: PointerEvent): number => {
    const area = box.current?.getBoundingClientRect();
    if (area === undefined) return Number.NaN;
    const share = (event.clientX - area.left - AXIS_WIDTH) / (area.width - AXIS_WIDTH - PADDING);
    return from + share * (to - from);
  };
  const isInside = (time: number) => time >= from && time <= to;
  const follow = (event: PointerEvent) => {
    const time = timeAt(event);
    cursor.move(isInside(time) ? (points[nearest(points, time)]?.at ?? null) : null);
  };
  const drag = (event: PointerEvent) => {
    // A finger scrolls, and moves the cursor.
    if (event.button !== 0 || event.pointerType === "touch" || !isInside(timeAt(event))) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setBegin(timeAt(event));
  };
  const drop = (event: PointerEvent) => {
    if (begin === null) return;
    const end = Math.min(Math.max(timeAt(event), from), to);
    setBegin(null);
    if (Math.abs(end - begin) >= 2 * step) onZoom({ from: Math.min(begin, end), to: Math.max(begin, end) });
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "+" || event.key === "-") {
      onZoom(zoomed({ from, to }, at ?? to, event.key === "+" ? 0.5 : 2, step));
      return;
    }
    const next = stepped(event.key, at ?? to, step, from, to);
    if (next === undefined) return;
    event.preventDefault();
    cursor.move(next === null ? null : (points[nearest(points, next)]?.at ?? null));
  };
  return (
    <Box
      _focusVisible={{ outline: "2px solid", outlineColor: "blue.focusRing", outlineOffset: "2px" }}
      aria-label="Time of the chart cursor"
      aria-valuemax={to}
      aria-valuemin={from}
      aria-valuenow={at ?? to}
      aria-valuetext={point === undefined ? "none" : pointText(point)}
      borderRadius="sm"
      onBlur={() => cursor.move(null)}
      onDoubleClick={onReset}
      onKeyDown={press}
      onPointerCancel={() => setBegin(null)}
      onPointerDown={drag}
      onPointerLeave={() => cursor.move(null)}
      onPointerMove={follow}
      onPointerUp={drop}
      position="relative"
      ref={box}
      role="slider"
      tabIndex={0}
      touchAction="pan-y"
      userSelect="none"
    >
      {children}
      {begin !== null && at !== null && (
        <Box
          bg="blue.solid"
          bottom={0}
          opacity={0.15}
          pointerEvents="none"
          position="absolute"
          style={selection(Math.min(begin, at), Math.max(begin, at), from, to)}
          top={0}
        />
      )}
    </Box>
  );
};

const selection = (begin: number, end: number, from: number, to: number) => {
  const width = `(100% - ${AXIS_WIDTH + PADDING}px)`;
  return {
    left: `calc(${AXIS_WIDTH}px + ${width} * ${(begin - from) / (to - from)})`,
    width: `calc(${width} * ${(end - begin) / (to - from)})`,
  };
};

const PAGE_STEPS = 10;

/** New time of the cursor after a key press: null removes the cursor, undefined ignores the key. */
const stepped = (
  key: string,
  at: number,
  step: number,
  from: number,
  to: number,
): number | null | undefined => {
  switch (key) {
    case "ArrowLeft":
      return Math.max(from, at - step);
    case "ArrowRight":
      return Math.min(to, at + step);
    case "PageDown":
      return Math.max(from, at - PAGE_STEPS * step);
    case "PageUp":
      return Math.min(to, at + PAGE_STEPS * step);
    case "Home":
      return from;
    case "End":
      return to;
    case "Escape":
      return null;
    default:
      return undefined;
  }
};

const pointText = (point: Point): string =>
  `${moment(point.at * 1_000)}: ${count(point.slots)} slots, ${rate(point.input)} in, ${rate(point.processed)} processed, backlog ${backlogText(point)}, lag ${duration(point.lag_s)}`;
