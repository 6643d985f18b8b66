import { Box, Table } from "@chakra-ui/react";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import {
  backlogText,
  count,
  duration,
  megabytes,
  millis,
  moment,
  percent,
  rate,
} from "../../lib/format/format";
import type { Point } from "../../lib/scheduler/timeSeries";
import { styleOf } from "../../lib/scheduler/states";

const COLUMNS = [
  "Time",
  "State",
  "Slots",
  "Bounds",
  "Rows in",
  "Processed",
  "Batch duration",
  "Backlog",
  "Lag",
  "Executor heap",
  "Garbage collection",
];

/** Maximum number of rows. The table skips points at regular intervals. */
const MOST_ROWS = 60;

/** The values of the charts as a table, for screen readers and for copying. */
export const MetricsTable = ({ points }: { points: Point[] }) => {
  const every = Math.max(1, Math.ceil(points.length / MOST_ROWS));
  const rows = points.filter((_, index) => (points.length - 1 - index) % every === 0).reverse();
  return (
    <Box asChild fontSize="sm" mt={2}>
      <details>
        <Box as="summary" color="fg.muted" cursor="pointer" fontSize="xs">
          Metrics as a table
        </Box>
        <Table.ScrollArea maxHeight="80" mt={2}>
          <Table.Root aria-label="Metrics over time, newest first" size="sm" stickyHeader>
            <ColumnHeaders names={COLUMNS} />
            <Table.Body>
              {rows.map((point) => (
                <Table.Row fontVariantNumeric="tabular-nums" key={point.at} whiteSpace="nowrap">
                  <Table.Cell>{moment(point.at * 1_000)}</Table.Cell>
                  <Table.Cell>{point.state === null ? "–" : styleOf(point.state).label}</Table.Cell>
                  <Table.Cell>{count(point.slots)}</Table.Cell>
                  <Table.Cell>
                    {count(point.lower)}–{count(point.upper)}
                  </Table.Cell>
                  <Table.Cell>{rate(point.input)}</Table.Cell>
                  <Table.Cell>{rate(point.processed)}</Table.Cell>
                  <Table.Cell>{millis(point.batch_ms)}</Table.Cell>
                  <Table.Cell>{backlogText(point)}</Table.Cell>
                  <Table.Cell>{duration(point.lag_s)}</Table.Cell>
                  <Table.Cell>{megabytes(point.heap_mb)}</Table.Cell>
                  <Table.Cell>{percent(point.gc)}</Table.Cell>
                </Table.Row>
              ))}
            </Table.Body>
          </Table.Root>
        </Table.ScrollArea>
      </details>
    </Box>
  );
};
