import { Badge, Box, Button, Link, Table, Text } from "@chakra-ui/react";
import { Fragment } from "react";
import { LuArrowDown } from "react-icons/lu";
import { Link as RouterLink, useSearchParams } from "react-router";
import { ORDER_BY } from "../api/queries";
import type { JobItem } from "../api/types";
import { Moment } from "../components/values/Moment";
import { StateBadge } from "../components/values/StateBadge";
import { dagPage, outside, taskPage } from "../lib/airflow/base";
import { backlogText, count, duration, exact, moment, rate, secondsBetween } from "../lib/format/format";
import { useNow } from "../lib/format/now";
import { bounds, total, totalRange } from "../lib/format/parallelism";
import { readable } from "../lib/format/reasonText";
import { sourceText } from "../lib/scheduler/requirementsSource";
import { healthOf } from "../lib/scheduler/health";
import { Sparkline } from "./Sparkline";
import { isCurrent, styleOf } from "../lib/scheduler/states";

/** Name, alignment, hint, and whether a narrow screen shows the column. */
const COLUMNS = [
  ["Job", "start", "", true],
  ["Health", "start", "Whether the job keeps up with its input", true],
  ["State", "start", "State of the scheduler, and time in the state", true],
  ["Parallelism", "end", "Current number of subtasks of all vertices, and their bounds", false],
  [
    "Slots",
    "end",
    "Slots that the job holds, and slots that the job holds or was offered; the line shows the last day",
    false,
  ],
  ["Lag", "end", "Age of the oldest unread row or file at the sources", true],
  ["Rows in", "end", "Rows read from the sources per second", false],
  ["Processed", "end", "Rows per second while a batch runs", false],
  ["Backlog", "end", "Rows or files that are waiting at the sources", false],
  ["Failures", "end", "Recent failures", false],
  ["Last transition", "start", "Last transition, with its reason", false],
] as const;

const WIDE = { base: "none", md: "table-cell" };

/** The jobs with their current values, in the order of the REST API. */
export const JobsTable = ({ jobs }: { jobs: JobItem[] }) => {
  const [search, setSearch] = useSearchParams();
  const sorted = search.get("sort");
  const sortBy = (column: string) => {
    const next = new URLSearchParams(search);
    if (column === sorted) next.delete("sort");
    else next.set("sort", column);
    next.delete("offset");
    setSearch(next, { replace: true });
  };
  return (
    <Table.ScrollArea borderColor="border" borderRadius="md" borderWidth={1}>
      <Table.Root aria-label="Adaptive jobs" interactive size="sm">
        <Table.Header>
          <Table.Row bg="bg.muted">
            {COLUMNS.map(([name, align, hint, isNarrow]) => (
              <Table.ColumnHeader
                aria-sort={name in ORDER_BY ? (name === sorted ? "descending" : "none") : undefined}
                display={isNarrow ? "table-cell" : WIDE}
                key={name}
                scope="col"
                textAlign={align}
                title={hint}
                whiteSpace="nowrap"
              >
                {name in ORDER_BY ? (
                  <Button
                    fontSize="inherit"
                    fontWeight="inherit"
                    height="auto"
                    minWidth={0}
                    onClick={() => sortBy(name)}
                    p={0}
                    size="xs"
                    variant="plain"
                  >
                    {name}
                    {name === sorted && <LuArrowDown aria-hidden />}
                  </Button>
                ) : (
                  name
                )}
              </Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {jobs.map((job) => (
            <Row job={job} key={job.job} />
          ))}
        </Table.Body>
      </Table.Root>
    </Table.ScrollArea>
  );
};

const Row = ({ job }: { job: JobItem }) => (
  <Table.Row opacity={isCurrent(job) ? 1 : 0.7}>
    <Table.Cell maxWidth="xs" minWidth={{ base: "24", md: "40" }}>
      <Name job={job} />
    </Table.Cell>
    <Table.Cell>
      <HealthBadge job={job} />
    </Table.Cell>
    <Table.Cell>
      <StateBadge outcome={job.outcome} size="sm" state={job.state} />
      {job.stale || job.abandoned ? <Unconfirmed job={job} /> : <TimeInState since={job.since} />}
    </Table.Cell>
    <Throughput job={job} />
    <Number>
      {job.failures > 0 ? (
        <Badge colorPalette="red" variant="subtle">
          {exact(job.failures)}
        </Badge>
      ) : (
        "0"
      )}
    </Number>
    <Table.Cell display={WIDE} maxWidth="sm" minWidth="52">
      <LastTransition job={job} />
    </Table.Cell>
  </Table.Row>
);

/** The mark of a job whose control loop publishes nothing, or that has none: its state may be another one. */
const Unconfirmed = ({ job }: { job: JobItem }) => (
  <Badge colorPalette="orange" title={`Published last at ${moment(job.published_at)}`} variant="surface">
    {job.abandoned ? "No control loop" : "Stale"}
  </Badge>
);

const HealthBadge = ({ job }: { job: JobItem }) => {
  const { color, label, text } = healthOf(job);
  return (
    <Badge colorPalette={color} title={text} variant="surface" whiteSpace="nowrap">
      {label}
    </Badge>
  );
};

const Name = ({ job }: { job: JobItem }) => (
  <>
    <Link
      asChild
      colorPalette="blue"
      fontWeight="semibold"
      lineClamp={2}
      overflowWrap="anywhere"
      title={job.job}
      variant="underline"
    >
      <RouterLink to={`/jobs/${encodeURIComponent(job.job)}`}>{job.job}</RouterLink>
    </Link>
    <Text color="fg.muted" fontSize="xs" title={job.dag_ids.join(", ")} truncate>
      {(job.task === null ? job.dag_ids : [job.task.dag_id]).map((dag, index) => (
        <Fragment key={dag}>
          {index > 0 && ", "}
          <Link {...outside(dagPage(dag))}>{dag}</Link>
        </Fragment>
      ))}
      {job.task !== null && (
        <>
          {" · "}
          <Link {...outside(taskPage(job.task))}>{job.task.task_id}</Link>
        </>
      )}
    </Text>
  </>
);

/** Resources and throughput of a job; empty for a job whose values are not current. */
const Throughput = ({ job }: { job: JobItem }) => {
  const metrics = isCurrent(job) ? job.metrics : null;
  return (
    <>
      <Number title={boundsTitle(job)}>
        {isCurrent(job) ? count(total(job.parallelism)) : "–"}
        <Text as="span" color="fg.muted" display="block" fontSize="xs">
          {bounds(totalRange(job.requirements))}
          <BoundsSource job={job} />
        </Text>
      </Number>
      <Slots job={job} />
      <Number isNarrow>{duration(metrics?.lag_s)}</Number>
      <Number title={exact(metrics?.input)}>{rate(metrics?.input)}</Number>
      <Number title={exact(metrics?.processed)}>{rate(metrics?.processed)}</Number>
      <Number title={exact(metrics?.backlog)}>{backlogText(metrics)}</Number>
    </>
  );
};

/** The slots of a job, and those of the last day. */
const Slots = ({ job }: { job: JobItem }) =>
  isCurrent(job) ? (
    <Number>
      {job.slots === null ? "–" : `${count(job.slots.held)} / ${count(job.slots.available)}`}
      <Sparkline job={job.job} />
    </Number>
  ) : (
    <Number>–</Number>
  );

const BoundsSource = ({ job: { requirements_source: by, state } }: { job: JobItem }) =>
  !by || state === "Finished" ? null : (
    <Text as="span" display="block" marginInlineStart="auto" maxWidth="32" truncate>
      by {sourceText(by)}
    </Text>
  );

const boundsTitle = (job: JobItem): string =>
  Object.entries(job.requirements)
    .map(([name, range]) => `${name}: ${job.parallelism?.[name] ?? "–"} (${bounds(range)})`)
    .join("\n");

interface NumberProps {
  title?: string;
  isNarrow?: boolean;
  children: React.ReactNode;
}

const Number = ({ title, isNarrow = false, children }: NumberProps) => (
  <Table.Cell
    display={isNarrow ? "table-cell" : WIDE}
    fontVariantNumeric="tabular-nums"
    textAlign="end"
    title={title}
    whiteSpace="nowrap"
  >
    {children}
  </Table.Cell>
);

const TimeInState = ({ since }: { since: string | null }) => {
  const now = useNow();
  const seconds = secondsBetween(since, now);
  if (seconds === null) return null;
  return (
    <Text color="fg.muted" fontSize="xs" mt={1} whiteSpace="nowrap">
      for {duration(seconds)}
    </Text>
  );
};

const LastTransition = ({ job: { last_transition: last } }: { job: JobItem }) => {
  if (last === null) return <>–</>;
  return (
    <Box fontSize="xs">
      <Text lineClamp={2} overflowWrap="anywhere" title={last.reason}>
        {readable(last.reason)}
      </Text>
      <Text color="fg.muted" whiteSpace="nowrap">
        to {styleOf(last.target).label.toLowerCase()}, <Moment at={last.at} />
      </Text>
    </Box>
  );
};
