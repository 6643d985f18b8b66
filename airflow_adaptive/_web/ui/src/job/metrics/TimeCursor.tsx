import { Box } from "@chakra-ui/react";
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef } from "react";
import { backlogText, count, duration, moment, rate } from "../../lib/format/format";
import { nearest, type Point } from "../../lib/scheduler/timeSeries";
import { AXIS_WIDTH } from "./chartOptions";
import { type Cursor, useCursor } from "./cursor";

interface Props {
  cursor: Cursor;
  points: Point[];
  step: number;
  from: number;
  to: number;
  children: ReactNode;
}

/** Right padding of the charts. */
const PADDING = 8;

/** Area in which the pointer or the arrow keys set the cursor of the charts. */
export const TimeCursor = ({ cursor, points, step, from, to, children }: Props) => {
  const at = useCursor(cursor);
  const box = useRef<HTMLDivElement>(null);
  const point = points[nearest(points, at ?? to)];
  const follow = (event: PointerEvent) => {
    const area = box.current?.getBoundingClientRect();
    if (area === undefined) return;
    const share = (event.clientX - area.left - AXIS_WIDTH) / (area.width - AXIS_WIDTH - PADDING);
    const moment = from + share * (to - from);
    cursor.move(share < 0 || share > 1 ? null : (points[nearest(points, moment)]?.at ?? null));
  };
  const press = (event: KeyboardEvent) => {
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
      onKeyDown={press}
      onPointerLeave={() => cursor.move(null)}
      onPointerMove={follow}
      ref={box}
      role="slider"
      tabIndex={0}
    >
      {children}
    </Box>
  );
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
