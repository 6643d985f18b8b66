import { Box, Text } from "@chakra-ui/react";
import { time } from "../../lib/format/format";
import { type Point, spans } from "../../lib/scheduler/timeSeries";
import { styleOf } from "../../lib/scheduler/states";
import { AXIS_WIDTH } from "./chartOptions";

interface Props {
  points: Point[];
  step: number;
  from: number;
  to: number;
}

/** The states of the job over time, as a colored lane above the charts. */
export const StateLane = ({ points, step, from, to }: Props) => {
  const share = (at: number) => (100 * (Math.min(Math.max(at, from), to) - from)) / (to - from);
  return (
    <Box position="relative" style={{ marginLeft: AXIS_WIDTH, marginRight: 8 }}>
      <Text
        aria-hidden
        fontSize="xs"
        fontWeight="semibold"
        lineHeight="1"
        position="absolute"
        right="100%"
        pr={2}
      >
        State
      </Text>
      <Box aria-hidden bg="bg.muted" borderRadius="sm" height="2.5" overflow="hidden" position="relative">
        {spans(points, step).map((span) => (
          <Box
            bg="colorPalette.solid"
            bottom={0}
            colorPalette={styleOf(span.state).color}
            key={span.from}
            position="absolute"
            style={{ left: `${share(span.from)}%`, width: `${share(span.to) - share(span.from)}%` }}
            title={`${styleOf(span.state).label}: ${time(span.from * 1_000)} to ${time(span.to * 1_000)}`}
            top={0}
          />
        ))}
      </Box>
    </Box>
  );
};
