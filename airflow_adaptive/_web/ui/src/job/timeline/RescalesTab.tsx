import { Badge, Box, Button, Grid, Stack, Table, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LuChevronDown, LuChevronRight, LuScaling } from "react-icons/lu";
import { rescalesQuery, rescaleSummaryQuery } from "../../api/queries";
import type { Counts, Rescale } from "../../api/types";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import { Loaded } from "../../components/feedback/Loaded";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { Stat, StatList } from "../../components/layout/Stat";
import { StateBadge } from "../../components/values/StateBadge";
import { duration, exact, moment, seconds, secondsBetween } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { tierText, constantText } from "../../lib/scheduler/states";

const COLORS: Record<string, string> = { COMPLETED: "green", FAILED: "red", IGNORED: "gray" };

/** Statistics of the rescales, and the history of rescales. */
export const RescalesTab = ({ job }: { job: string }) => {
  const summary = useQuery(rescaleSummaryQuery(job));
  const history = useQuery(rescalesQuery(job));
  return (
    <Stack gap={4}>
      <Section title="Statistics">
        <Loaded lines={1} query={summary}>
          {({ completed, failed, ignored, in_progress, completed_duration, downtime }) => (
            <StatList>
              <Stat label="Completed">{exact(completed)}</Stat>
              <Stat label="Failed">{exact(failed)}</Stat>
              <Stat label="Ignored">{exact(ignored)}</Stat>
              <Stat label="In progress">{exact(in_progress)}</Stat>
              <Stat label="Duration, median">{seconds(completed_duration?.p50)}</Stat>
              <Stat label="Duration, 95 %">{seconds(completed_duration?.p95)}</Stat>
              <Stat label="Downtime, median">{seconds(downtime?.p50)}</Stat>
              <Stat label="Downtime, longest">{seconds(downtime?.max)}</Stat>
            </StatList>
          )}
        </Loaded>
      </Section>
      <Section title="History">
        <Loaded query={history}>
          {({ rescales }) =>
            rescales.length === 0 ? (
              <Placeholder icon={LuScaling} title="No rescales yet" />
            ) : (
              <History rescales={rescales} />
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
};

const COLUMNS = ["", "Start", "Cause", "Parallelism", "Result", "Tier", "Duration", "Downtime"];

const History = ({ rescales }: { rescales: Rescale[] }) => {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <Table.ScrollArea>
      <Table.Root aria-label="Rescales" size="sm">
        <ColumnHeaders names={COLUMNS} />
        <Table.Body>
          {rescales.map((rescale) => (
            <Line
              isOpen={open === rescale.number}
              key={rescale.number}
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
  rescale: Rescale;
  isOpen: boolean;
  onToggle: () => void;
}

const Line = ({ rescale, isOpen, onToggle }: LineProps) => (
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
        {moment(rescale.start)}
      </Table.Cell>
      <Table.Cell>{constantText(rescale.trigger_cause)}</Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        <Parallelism rescale={rescale} />
      </Table.Cell>
      <Table.Cell>
        <Badge
          colorPalette={COLORS[rescale.terminal_state ?? ""] ?? "blue"}
          title={constantText(rescale.terminated_reason)}
        >
          {rescale.terminal_state === null ? "In progress" : constantText(rescale.terminal_state)}
        </Badge>
      </Table.Cell>
      <Table.Cell color="fg.muted" fontSize="xs">
        {tierText(rescale.tier) ?? "–"}
      </Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        <RescaleDuration rescale={rescale} />
      </Table.Cell>
      <Table.Cell fontVariantNumeric="tabular-nums" whiteSpace="nowrap">
        {seconds(rescale.downtime)}
      </Table.Cell>
    </Table.Row>
    {isOpen && (
      <Table.Row>
        <Table.Cell bg="bg.subtle" colSpan={COLUMNS.length}>
          <Details rescale={rescale} />
        </Table.Cell>
      </Table.Row>
    )}
  </>
);

const RescaleDuration = ({ rescale }: { rescale: Rescale }) => {
  const now = useNow();
  return rescale.end === null ? (
    <>{duration(secondsBetween(rescale.start, now))} so far</>
  ) : (
    <>{seconds(secondsBetween(rescale.start, Date.parse(rescale.end)))}</>
  );
};

/** Total parallelism before and after a rescale. The tooltip lists the vertices. */
const Parallelism = ({ rescale }: { rescale: Rescale }) => {
  const { before, after, desired, sufficient } = rescale.vertices;
  const sum = (counts: Counts | null) =>
    counts === null ? "–" : exact(Object.values(counts).reduce((all, count) => all + count, 0));
  const title = Object.keys(desired)
    .map(
      (vertex) =>
        `${vertex}: ${before?.[vertex] ?? "–"} → ${after?.[vertex] ?? "–"} (bounds ${sufficient[vertex] ?? "–"}–${desired[vertex]})`,
    )
    .join("\n");
  return (
    <span title={title}>
      {sum(before)} → {sum(after)}
    </span>
  );
};

const Details = ({ rescale }: { rescale: Rescale }) => (
  <Stack gap={3} py={2}>
    <Text fontSize="sm">
      {rescale.terminated_reason === null
        ? "The rescale is in progress."
        : `${constantText(rescale.terminated_reason)}.`}{" "}
      Attempt {rescale.attempt} with the same requirements.
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
        {rescale.states.map((span, index) => (
          <Grid as="li" gridColumn="1 / -1" gridTemplateColumns="subgrid" key={`${span.state}-${index}`}>
            <StateBadge size="sm" state={span.state} />
            <Text fontSize="sm" fontVariantNumeric="tabular-nums">
              {seconds(secondsBetween(span.entered, Date.parse(span.left)))}
            </Text>
          </Grid>
        ))}
      </Grid>
    </Box>
  </Stack>
);
