import { Badge, Box, Button, Grid, Stack, Table, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LuChevronDown, LuChevronRight, LuScaling } from "react-icons/lu";
import { rescaleQuery, rescalesQuery, rescalesSummaryQuery } from "../../api/queries";
import type { Rescale } from "../../api/types";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import { Loaded } from "../../components/feedback/Loaded";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { Stat, StatList } from "../../components/layout/Stat";
import { StateBadge } from "../../components/values/StateBadge";
import { duration, exact, millis, moment } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { tierText, constantText } from "../../lib/scheduler/states";

const COLORS: Record<string, string> = { COMPLETED: "green", FAILED: "red", IGNORED: "gray" };

/** Statistics of the rescales, and the history of rescales. */
export const RescalesTab = ({ job }: { job: string }) => {
  const summary = useQuery(rescalesSummaryQuery(job));
  const history = useQuery(rescalesQuery(job));
  return (
    <Stack gap={4}>
      <Section title="Statistics">
        <Loaded lines={1} query={summary}>
          {({
            rescalesCounts: counts,
            completedRescalesDurationStatsInMillis: durations,
            downtimeStatsInMillis: downtimes,
          }) => (
            <StatList>
              <Stat label="Completed">{exact(counts.completed)}</Stat>
              <Stat label="Failed">{exact(counts.failed)}</Stat>
              <Stat label="Ignored">{exact(counts.ignored)}</Stat>
              <Stat label="In progress">{exact(counts.inProgress)}</Stat>
              <Stat label="Duration, median">{millis(durations?.p50)}</Stat>
              <Stat label="Duration, 95 %">{millis(durations?.p95)}</Stat>
              <Stat label="Downtime, median">{millis(downtimes?.p50)}</Stat>
              <Stat label="Downtime, longest">{millis(downtimes?.max)}</Stat>
            </StatList>
          )}
        </Loaded>
      </Section>
      <Section title="History">
        <Loaded query={history}>
          {(rescales) =>
            rescales.length === 0 ? (
              <Placeholder icon={LuScaling} title="No rescales yet" />
            ) : (
              <History job={job} rescales={rescales} />
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
};

const COLUMNS = ["", "Start", "Cause", "Parallelism", "Result", "Tier", "Duration", "Downtime"];

const History = ({ job, rescales }: { job: string; rescales: Rescale[] }) => {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <Table.ScrollArea>
      <Table.Root aria-label="Rescales" size="sm">
        <ColumnHeaders names={COLUMNS} />
        <Table.Body>
          {rescales.map((rescale) => (
            <Line
              isOpen={open === rescale.number}
              job={job}
              key={rescale.rescaleUuid}
              onToggle={() => setOpen(open === rescale.number ? null : rescale.number)}
              rescale={rescale}
            />
          ))}
        </Table.Body>
      </Table.Root>
    </Table.ScrollArea>
  );
};

interface LineProps {
  job: string;
  rescale: Rescale;
  isOpen: boolean;
  onToggle: () => void;
}

const Line = ({ job, rescale, isOpen, onToggle }: LineProps) => (
  <>
    <Table.Row>
      <Table.Cell>
        <Button
          aria-expanded={isOpen}
          aria-label={`Details of rescale ${rescale.number}`}
          onClick={onToggle}
          size="2xs"
          variant="ghost"
        >
          {isOpen ? <LuChevronDown aria-hidden /> : <LuChevronRight aria-hidden />}
          {rescale.number}
        </Button>
      </Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        {moment(rescale.startTimestampInMillis)}
      </Table.Cell>
      <Table.Cell>{constantText(rescale.triggerCause)}</Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        <Parallelism rescale={rescale} />
      </Table.Cell>
      <Table.Cell>
        <Badge
          colorPalette={COLORS[rescale.terminalState ?? ""] ?? "blue"}
          title={constantText(rescale.terminatedReason)}
        >
          {rescale.terminalState === null ? "In progress" : constantText(rescale.terminalState)}
        </Badge>
      </Table.Cell>
      <Table.Cell color="fg.muted" fontSize="xs">
        {tierText(rescale.tier) ?? "–"}
      </Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        <RescaleDuration rescale={rescale} />
      </Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        {millis(rescale.downtimeInMillis)}
      </Table.Cell>
    </Table.Row>
    {isOpen && (
      <Table.Row>
        <Table.Cell bg="bg.subtle" colSpan={COLUMNS.length}>
          <Details job={job} number={rescale.number} />
        </Table.Cell>
      </Table.Row>
    )}
  </>
);

const RescaleDuration = ({ rescale }: { rescale: Rescale }) => {
  const now = useNow();
  const end = rescale.endTimestampInMillis;
  return end === null ? (
    <>{duration((now - rescale.startTimestampInMillis) / 1_000)} so far</>
  ) : (
    <>{millis(end - rescale.startTimestampInMillis)}</>
  );
};

/** Total parallelism before and after a rescale. The tooltip lists the vertices. */
const Parallelism = ({ rescale }: { rescale: Rescale }) => {
  const vertices = Object.values(rescale.vertices);
  const sum = (values: (number | null)[]) =>
    values.some((value) => value === null)
      ? "–"
      : exact(values.reduce<number>((all, value) => all + (value ?? 0), 0));
  const title = vertices
    .map(
      (vertex) =>
        `${vertex.jobVertexName}: ${vertex.preRescaleParallelism ?? "–"} → ${vertex.postRescaleParallelism ?? "–"} (bounds ${vertex.sufficientParallelism}–${vertex.desiredParallelism})`,
    )
    .join("\n");
  return (
    <span title={title}>
      {sum(vertices.map((vertex) => vertex.preRescaleParallelism))} →{" "}
      {sum(vertices.map((vertex) => vertex.postRescaleParallelism))}
    </span>
  );
};

const Details = ({ job, number }: { job: string; number: number }) => {
  const query = useQuery(rescaleQuery(job, number));
  return (
    <Loaded lines={2} query={query}>
      {(rescale) => (
        <Stack gap={3} py={2}>
          <Text fontSize="sm">
            {rescale.terminatedReason === null
              ? "The rescale is in progress."
              : `${constantText(rescale.terminatedReason)}.`}{" "}
            Attempt {rescale.rescaleAttemptId} with the same requirements.
          </Text>
          {rescale.failure !== null && (
            <Text color="fg.error" fontSize="sm" overflowWrap="anywhere">
              {rescale.failure}
            </Text>
          )}
          <Box>
            <Text color="fg.muted" fontSize="xs" fontWeight="bold" mb={2}>
              Scheduler states
            </Text>
            <Grid as="ol" gap={2} gridTemplateColumns="max-content max-content" listStyleType="none">
              {(rescale.schedulerStates ?? []).map((span, index) => (
                <Grid
                  as="li"
                  gridColumn="1 / -1"
                  gridTemplateColumns="subgrid"
                  key={`${span.state}-${index}`}
                >
                  <StateBadge size="sm" state={span.state} />
                  <Text fontSize="sm" fontVariantNumeric="tabular-nums">
                    {millis(span.durationInMillis)}
                  </Text>
                </Grid>
              ))}
            </Grid>
          </Box>
        </Stack>
      )}
    </Loaded>
  );
};
