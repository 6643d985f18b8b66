import { Box, Flex, Text } from "@chakra-ui/react";
import { Chart, Filler, LinearScale, LineController, LineElement, PointElement } from "chart.js";
import annotation from "chartjs-plugin-annotation";
import { useEffect, useMemo, useRef } from "react";
import { Line as LineChart } from "react-chartjs-2";
import type { Rescale } from "../../api/types";
import { time } from "../../lib/format/format";
import { nearest, type Point, withGaps } from "../../lib/scheduler/timeSeries";
import type { ChartColors } from "./chartColors";
import { AXIS_WIDTH, type ChartKind, cursorPlugin, datasetsOf, optionsOf } from "./chartOptions";
import { type Cursor, useCursor } from "./cursor";

Chart.register(Filler, LinearScale, LineController, LineElement, PointElement, annotation);

interface Props {
  kind: ChartKind;
  points: Point[];
  step: number;
  cursor: Cursor;
  frame: { from: number; to: number; colors: ChartColors; rescales: Rescale[]; isLast: boolean };
}

/** One chart. Its legend shows the values at the cursor, or the newest values without a cursor. */
export const TimeChart = ({ kind, points, step, cursor, frame }: Props) => {
  const chart = useRef<Chart<"line"> | null>(null);
  const { colors } = frame;
  useEffect(() => cursor.subscribe(() => chart.current?.draw()), [cursor]);
  const data = useMemo(
    () => ({ datasets: datasetsOf(kind, withGaps(points, step), colors) }),
    [kind, points, step, colors],
  );
  const plugins = useMemo(() => [cursorPlugin(cursor, colors.cursor)], [cursor, colors]);
  return (
    <Box as="figure" mt={2}>
      <Legend colors={colors} cursor={cursor} kind={kind} points={points} />
      <Box height={frame.isLast ? "7.5rem" : "6rem"} position="relative">
        <LineChart
          aria-label={`${kind.title} over time; the values are in the table below`}
          data={data}
          key={colors.main}
          options={optionsOf(kind, frame)}
          plugins={plugins}
          ref={(instance) => {
            chart.current = instance ?? null;
          }}
          role="img"
        />
      </Box>
    </Box>
  );
};

const Legend = ({
  kind,
  points,
  cursor,
  colors,
}: Pick<Props, "kind" | "points" | "cursor"> & { colors: ChartColors }) => {
  const at = useCursor(cursor);
  const point = at === null ? points.at(-1) : points[nearest(points, at)];
  return (
    <Flex
      as="figcaption"
      align="baseline"
      columnGap={4}
      fontSize="xs"
      pr={2}
      style={{ paddingLeft: AXIS_WIDTH }}
      wrap="wrap"
    >
      <Text fontWeight="semibold">{kind.title}</Text>
      {kind.lines.map((line) => (
        <Flex align="center" gap={1.5} key={line.label} fontVariantNumeric="tabular-nums">
          <Box
            aria-hidden
            style={{
              borderTop: `2px ${line.style === "step" || line.style === undefined ? "solid" : "dashed"} ${colors[line.color]}`,
            }}
            width="3"
          />
          <Text as="span" color="fg.muted">
            {line.label}
          </Text>
          {point === undefined ? "–" : kind.text(line.value(point))}
        </Flex>
      ))}
      {at !== null && point !== undefined && (
        <Text color="fg.muted" fontVariantNumeric="tabular-nums" ml="auto">
          {time(point.at * 1_000)}
        </Text>
      )}
    </Flex>
  );
};
