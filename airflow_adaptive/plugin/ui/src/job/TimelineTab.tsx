import { Badge, Box, Flex, SegmentGroup, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LuHistory } from "react-icons/lu";
import { timelineQuery } from "../api/queries";
import { Loaded } from "../components/Loaded";
import { Moment } from "../components/Moment";
import { Notice } from "../components/Notice";
import { Section } from "../components/Section";
import { StateBadge } from "../components/StateBadge";
import { moment } from "../lib/format";
import { change } from "../lib/parallelism";
import { plain } from "../lib/plain";
import { boundsSetter, isDryRun } from "../lib/policies";
import { styleOf, tierText } from "../lib/states";
import { type Entry, entriesOf } from "../lib/timeline";

const SHOWN = ["All", "Transitions", "Decisions"];

/** How many entries are drawn at once. */
const PAGE = 100;

/** What the scheduler did, what it did not do, and why; the newest first. */
export const TimelineTab = ({ job }: { job: string }) => {
  const query = useQuery(timelineQuery(job));
  const [shown, setShown] = useState("All");
  const [most, setMost] = useState(PAGE);
  return (
    <Section
      aside={
        <SegmentGroup.Root onValueChange={({ value }) => setShown(value ?? "All")} size="xs" value={shown}>
          <SegmentGroup.Indicator />
          <SegmentGroup.Items items={SHOWN} />
        </SegmentGroup.Root>
      }
      title="What the scheduler did, and why"
    >
      <Loaded query={query}>
        {(timeline) => {
          const entries = entriesOf(timeline).filter(
            ({ kind }) => shown === "All" || (kind === "transition") === (shown === "Transitions"),
          );
          return entries.length === 0 ? (
            <Notice icon={LuHistory} title="Nothing has happened yet" />
          ) : (
            <Stack as="ol" gap={0} listStyleType="none">
              {entries.slice(0, most).map((entry) => (
                <Line entry={entry} key={entry.id} />
              ))}
              {entries.length > most && (
                <Text asChild color="fg.muted" cursor="pointer" fontSize="sm" pt={3} textAlign="center">
                  <button onClick={() => setMost(most + PAGE)} type="button">
                    Show {Math.min(PAGE, entries.length - most)} more of {entries.length}
                  </button>
                </Text>
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Section>
  );
};

const Line = ({ entry }: { entry: Entry }) => (
  <Flex
    _last={{ borderBottomWidth: 0 }}
    as="li"
    borderBottomWidth={1}
    borderColor="border"
    direction={{ base: "column", md: "row" }}
    gap={{ base: 1, md: 4 }}
    py={2.5}
  >
    <Box color="fg.muted" flex="0 0 11.5rem" fontSize="xs" fontVariantNumeric="tabular-nums" pt={0.5}>
      {moment(entry.at)}
      <Text>
        <Moment at={entry.at} />
      </Text>
    </Box>
    <Box flex="1" minWidth={0}>
      {entry.kind === "transition" ? (
        <Change entry={entry} />
      ) : (
        <Flex align="center" gap={2} wrap="wrap">
          <DecisionBadge reason={entry.reason} />
          <Text color="fg.muted" fontSize="xs">
            while {styleOf(entry.state).label.toLowerCase()}
          </Text>
        </Flex>
      )}
      <Text fontSize="sm" mt={1} overflowWrap="anywhere">
        {plain(entry.reason)}
      </Text>
    </Box>
  </Flex>
);

const DecisionBadge = ({ reason }: { reason: string }) => {
  const by = boundsSetter(reason);
  if (isDryRun(reason)) {
    return (
      <Badge
        colorPalette="orange"
        title="What the rescale policy would do; nothing is changed"
        variant="solid"
      >
        Dry run
      </Badge>
    );
  }
  return by === null ? (
    <Badge variant="outline">Decision</Badge>
  ) : (
    <Badge colorPalette="steel" maxWidth="full" variant="subtle">
      <Text truncate>Bounds by {by}</Text>
    </Badge>
  );
};

const Change = ({ entry }: { entry: Extract<Entry, { kind: "transition" }> }) => {
  const parallelism = change(entry.before, entry.after);
  const tier = tierText(entry.tier);
  return (
    <Flex align="center" gap={2} wrap="wrap">
      <StateBadge size="sm" state={entry.source} />
      <Text as="span" aria-label="to">
        →
      </Text>
      <StateBadge size="sm" state={entry.target} />
      {parallelism !== null && (
        <Text fontSize="sm" fontVariantNumeric="tabular-nums" fontWeight="semibold">
          parallelism {parallelism}
        </Text>
      )}
      {tier !== null && (
        <Text color="fg.muted" fontSize="xs">
          {tier}
        </Text>
      )}
    </Flex>
  );
};
