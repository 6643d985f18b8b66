import { Badge, Box, Text } from "@chakra-ui/react";
import type { JobDetails } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { Stat, StatList } from "../../components/layout/Stat";
import { Address } from "../../components/values/Address";
import { dagPage, taskPage } from "../../lib/airflow/base";
import { backlogText, count, duration, exact, millis, rate } from "../../lib/format/format";
import { bounds, text, total, totalRange } from "../../lib/format/parallelism";
import { CostStat } from "./CostStat";
import { readable } from "../../lib/format/reasonText";
import { sourceText } from "../../lib/scheduler/requirementsSource";
import { isCurrent } from "../../lib/scheduler/states";

/** Current values of a job. */
export const JobStats = ({ details }: { details: JobDetails }) => (
  <Box mt={4}>
    <StatList>
      <Throughput details={details} />
      <Resources details={details} />
      <Counters details={details} />
    </StatList>
  </Box>
);

/** Parallelism and slots of the job, with their bounds. */
const Resources = ({ details }: { details: JobDetails }) => {
  const { parallelism, requirements, slots, requirements_source: by } = details;
  const isNow = isCurrent(details);
  return (
    <>
      <Stat hint="Current number of subtasks of all vertices, and their bounds" label="Parallelism">
        <Text as="span" fontWeight="bold" title={parallelism === null ? "" : text(parallelism)}>
          {isNow ? count(total(parallelism)) : "–"}
        </Text>{" "}
        <Text as="span" color="fg.muted">
          of {bounds(totalRange(requirements))}
        </Text>
      </Stat>
      {by && (
        <Stat hint={readable(by.reason)} label="Bounds set by">
          {sourceText(by)}
          {details.policy?.dry_run && (
            <Badge colorPalette="orange" ml={2} size="xs" variant="solid">
              Dry run
            </Badge>
          )}
        </Stat>
      )}
      <CostStat job={details.job} />
      <Stat hint="Slots that the job holds, and slots that the job holds or was offered" label="Slots">
        {slots === null || !isNow ? "–" : `${exact(slots.held)} of ${exact(slots.available)}`}
      </Stat>
    </>
  );
};

/** Current throughput of the job. */
const Throughput = ({ details }: { details: JobDetails }) => {
  const metrics = isCurrent(details) ? details.metrics : null;
  return (
    <>
      <Stat hint="Age of the oldest unread row at the sources" label="Lag">
        {duration(metrics?.lag_s)}
      </Stat>
      <Stat hint={exact(metrics?.input)} label="Rows in">
        {rate(metrics?.input)}
      </Stat>
      <Stat hint={exact(metrics?.processed)} label="Processed">
        {rate(metrics?.processed)}
      </Stat>
      <Stat label="Batch duration">{millis(metrics?.batch_ms)}</Stat>
      <Stat hint={exact(metrics?.backlog)} label="Backlog">
        {backlogText(metrics)}
      </Stat>
    </>
  );
};

/** Counters over the lifetime of the job. */
const Counters = ({ details }: { details: JobDetails }) => {
  const { task } = details;
  return (
    <>
      <Stat label="Rescales">{exact(details.rescales)}</Stat>
      <Stat hint="Restarts, including rescales" label="Restarts">
        {exact(details.restarts)}
      </Stat>
      <Stat hint="Recent failures, which the tab Failures lists" label="Failures">
        <Box as="span" color={details.failures > 0 ? "fg.error" : "inherit"}>
          {exact(details.failures)}
        </Box>
      </Stat>
      <Stat label="Last published">
        <Moment at={details.published_at} />
      </Stat>
      {task !== null && (
        <Stat hint={`run ${task.run_id}`} label="Task">
          <Address
            text={`${task.task_id}${task.map_index >= 0 ? ` [${task.map_index}]` : ""}`}
            url={taskPage(task)}
          />
        </Stat>
      )}
      {task !== null && (
        <Stat label="DAG">
          <Address text={task.dag_id} url={dagPage(task.dag_id)} />
        </Stat>
      )}
    </>
  );
};
