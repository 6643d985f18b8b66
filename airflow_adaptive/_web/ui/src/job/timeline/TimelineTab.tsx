import { Badge, Box, Flex, HStack, NativeSelect, SegmentGroup, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LuHistory } from "react-icons/lu";
import { timelineQuery } from "../../api/queries";
import { Loaded } from "../../components/feedback/Loaded";
import { Moment } from "../../components/values/Moment";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { StateBadge } from "../../components/values/StateBadge";
import { moment } from "../../lib/format/format";
import { change } from "../../lib/format/parallelism";
import { readable } from "../../lib/format/reasonText";
import { styleOf, tierText } from "../../lib/scheduler/states";
import { codesOf, codeText, type Entry, entriesOf } from "./entries";

const KINDS = ["All", "Transitions", "Decisions"];

/** Number of entries that each click adds. */
const PAGE = 100;

/** Transitions and decisions of the scheduler with their reasons, newest first. */
export const TimelineTab = ({ job }: { job: string }) => {
  const query = useQuery(timelineQuery(job));
  const [kindFilter, setKindFilter] = useState("All");
  const [code, setCode] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const codes = query.data === undefined ? [] : codesOf(entriesOf(query.data));
  return (
    <Section
      aside={
        <HStack wrap="wrap">
          <CodeFilter code={code} codes={codes} onChange={setCode} />
          <SegmentGroup.Root
            onValueChange={({ value }) => setKindFilter(value ?? "All")}
            size="xs"
            value={kindFilter}
          >
            <SegmentGroup.Indicator />
            <SegmentGroup.Items items={KINDS} />
          </SegmentGroup.Root>
        </HStack>
      }
      title="Transitions and decisions"
    >
      <Loaded query={query}>
        {(timeline) => {
          const entries = entriesOf(timeline).filter(
            ({ kind, reason_code }) =>
              (code === "" || reason_code === code) &&
              (kindFilter === "All" || (kind === "transition") === (kindFilter === "Transitions")),
          );
          return entries.length === 0 ? (
            <Placeholder icon={LuHistory} title="No entries yet" />
          ) : (
            <Stack as="ol" gap={0} listStyleType="none">
              {entries.slice(0, limit).map((entry) => (
                <Line entry={entry} key={entry.id} />
              ))}
              {entries.length > limit && (
                <Text asChild color="fg.muted" cursor="pointer" fontSize="sm" pt={3} textAlign="center">
                  <button onClick={() => setLimit(limit + PAGE)} type="button">
                    Show {Math.min(PAGE, entries.length - limit)} more of {entries.length}
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

interface CodeFilterProps {
  code: string;
  codes: string[];
  onChange: (code: string) => void;
}

const CodeFilter = ({ code, codes, onChange }: CodeFilterProps) => (
  <NativeSelect.Root size="xs" width="52">
    <NativeSelect.Field aria-label="Reason" onChange={(event) => onChange(event.target.value)} value={code}>
      <option value="">All reasons</option>
      {codes.map((name) => (
        <option key={name} value={name}>
          {codeText(name)}
        </option>
      ))}
    </NativeSelect.Field>
    <NativeSelect.Indicator />
  </NativeSelect.Root>
);

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
          <DecisionBadge code={entry.reason_code} />
          <Text color="fg.muted" fontSize="xs">
            while {styleOf(entry.state).label.toLowerCase()}
          </Text>
        </Flex>
      )}
      <Text fontSize="sm" mt={1} overflowWrap="anywhere">
        {readable(entry.reason)}
      </Text>
      <Text color="fg.muted" fontSize="xs">
        {codeText(entry.reason_code)}
      </Text>
    </Box>
  </Flex>
);

const DecisionBadge = ({ code }: { code: string }) =>
  code === "POLICY_DRY_RUN" ? (
    <Badge colorPalette="orange" title="Advice of the rescale policy that is not applied" variant="solid">
      Dry run
    </Badge>
  ) : (
    <Badge variant="outline">Decision</Badge>
  );

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
