import { Table, Text } from "@chakra-ui/react";
import type { Query } from "../../api/types";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import { Section } from "../../components/layout/Section";
import { duration, exact } from "../../lib/format/format";
import { deliveryText, lagText, latencyText, limitText, unreadText } from "./sourceText";

const COLUMNS = [
  "Query",
  "Source",
  "Partitions",
  "Unread",
  "Lag",
  "Skew",
  "Worst partition",
  "Event-time delay",
  "Input limit",
];

/** The sources of all queries: lag, skew and input limit. */
export const Sources = ({ queries }: { queries: Query[] }) => (
  <Section title="Sources">
    {queries.every(({ sources }) => sources.length === 0) ? (
      <Text color="fg.muted" fontSize="sm">
        The driver reports no sources.
      </Text>
    ) : (
      <Table.ScrollArea>
        <Table.Root aria-label="Sources" size="sm">
          <ColumnHeaders names={COLUMNS} />
          <Table.Body>
            {queries.flatMap((query) =>
              query.sources.map((source, index) => (
                <Table.Row fontVariantNumeric="tabular-nums" key={`${query.name} ${index}`}>
                  <Table.Cell overflowWrap="anywhere">{query.name}</Table.Cell>
                  <Table.Cell>{source.kind}</Table.Cell>
                  <Table.Cell>{exact(source.partitions)}</Table.Cell>
                  <Table.Cell>{unreadText(source)}</Table.Cell>
                  <Table.Cell>{lagText(source)}</Table.Cell>
                  <Table.Cell>{source.skew === null ? "–" : `${exact(source.skew)} ×`}</Table.Cell>
                  <Table.Cell overflowWrap="anywhere">{source.worst_partition ?? "–"}</Table.Cell>
                  <Table.Cell>{duration(query.event_time_delay_s)}</Table.Cell>
                  <Table.Cell>{limitText(source, query.shuffle)}</Table.Cell>
                </Table.Row>
              )),
            )}
          </Table.Body>
        </Table.Root>
      </Table.ScrollArea>
    )}
    {[...queries.map(latencyText), ...queries.map(deliveryText)].map(
      (text, index) =>
        text !== null && (
          <Text fontSize="sm" key={index} mt={2}>
            {text}
          </Text>
        ),
    )}
  </Section>
);
