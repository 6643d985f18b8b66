import { Box, Button, Flex, HStack, SegmentGroup, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { LuChartLine, LuZoomOut } from "react-icons/lu";
import { metricsQuery, rescalesQuery } from "../../api/queries";
import type { Metrics } from "../../api/types";
import { Loaded } from "../../components/feedback/Loaded";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { useColorMode } from "../../lib/airflow/colorMode";
import { pointsOf, type Range, within } from "../../lib/scheduler/timeSeries";
import { chartColors } from "./chartColors";
import { kindsWith } from "./chartOptions";
import { createCursor } from "./cursor";
import { MetricsTable } from "./MetricsTable";
import { StateLane } from "./StateLane";
import { TimeCursor } from "./TimeCursor";
import { TimeChart } from "./TimeChart";

/** Label of a time span -> resolution in seconds, and length of the span in seconds. */
const SPANS: Record<string, [number, number]> = {
  "1 hour": [10, 3_600],
  "8 hours": [60, 28_800],
  "3 days": [600, 259_200],
};

/** The metrics of a job over time: charts that share one time axis and one cursor. */
export const MetricsCharts = ({ job }: { job: string }) => {
  const [span, setSpan] = useState("1 hour");
  const [zoom, setZoom] = useState<Range | null>(null);
  const [step, seconds] = SPANS[span] ?? [10, 3_600];
  const query = useQuery({
    ...metricsQuery(job, step),
    refetchInterval: step === 10 ? 30_000 : step * 1_000,
  });
  return (
    <Section
      aside={
        <HStack gap={4}>
          {zoom === null ? (
            <RescaleKey />
          ) : (
            <Button onClick={() => setZoom(null)} size="xs" variant="outline">
              <LuZoomOut aria-hidden /> Reset zoom
            </Button>
          )}
          <SegmentGroup.Root
            aria-label="Time span"
            onValueChange={({ value }) => {
              setSpan(value ?? "1 hour");
              setZoom(null);
            }}
            size="xs"
            value={span}
          >
            <SegmentGroup.Indicator />
            <SegmentGroup.Items items={Object.keys(SPANS)} />
          </SegmentGroup.Root>
        </HStack>
      }
      title="Metrics over time"
    >
      <Loaded lines={4} query={query}>
        {(page) => <Stacked job={job} onZoom={setZoom} page={page} seconds={seconds} zoom={zoom} />}
      </Loaded>
    </Section>
  );
};

interface StackedProps {
  job: string;
  page: Metrics;
  seconds: number;
  zoom: Range | null;
  onZoom: (range: Range | null) => void;
}

const Stacked = ({ job, page, seconds, zoom, onZoom }: StackedProps) => {
  const rescales = useQuery(rescalesQuery(job)).data?.rescales ?? [];
  const colors = chartColors(useColorMode());
  const points = useMemo(() => pointsOf(page), [page]);
  const kinds = useMemo(() => kindsWith(points), [points]);
  const [cursor] = useState(createCursor);
  const last = points.at(-1);
  if (last === undefined) {
    return (
      <Placeholder icon={LuChartLine} title="No metrics yet">
        The job publishes one point every 10 seconds while its driver runs.
      </Placeholder>
    );
  }
  const end = last.at + page.step;
  const all = { from: Math.max(end - seconds, Math.min(points[0]?.at ?? 0, end - 20 * page.step)), to: end };
  const { from, to } = zoom ?? all;
  const shown =
    zoom === null ? points : points.filter(({ at }) => at >= from - page.step && at <= to + page.step);
  const frame = { from, to, colors, rescales };
  return (
    <Stack gap={1}>
      <StateLane from={from} points={shown} step={page.step} to={to} />
      <TimeCursor
        cursor={cursor}
        from={from}
        onReset={() => onZoom(null)}
        onZoom={(range) => onZoom(within(all, range))}
        points={shown}
        step={page.step}
        to={to}
      >
        {kinds.map((kind, index) => (
          <TimeChart
            cursor={cursor}
            frame={{ ...frame, isLast: index === kinds.length - 1 }}
            key={kind.id}
            kind={kind}
            points={shown}
            step={page.step}
          />
        ))}
      </TimeCursor>
      <MetricsTable points={shown} />
    </Stack>
  );
};

const RescaleKey = () => {
  const { mark } = chartColors(useColorMode());
  return (
    <Flex align="center" gap={1.5}>
      <Box aria-hidden height="3" style={{ borderLeft: `2px solid ${mark}` }} />
      <Text color="fg.muted" fontSize="xs">
        rescale
      </Text>
    </Flex>
  );
};
