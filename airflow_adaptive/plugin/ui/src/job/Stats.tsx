import { Badge, Box, Text } from "@chakra-ui/react";
import type { JobDetails } from "../api/types";
import { Moment } from "../components/Moment";
import { Stat, StatList } from "../components/Stat";
import { count, exact, millis, rate } from "../lib/format";
import { bounds, text, total, totalRange } from "../lib/parallelism";
import { plain } from "../lib/plain";
import { setter } from "../lib/policies";

/** The newest figures of a job. */
export const Stats = ({ details }: { details: JobDetails }) => (
  <Box mt={4}>
    <StatList>
      <Room details={details} />
      <Flow details={details} />
      <Life details={details} />
    </StatList>
  </Box>
);

/** What it has, of what it may have. */
const Room = ({ details }: { details: JobDetails }) => {
  const { parallelism, requirements, slots, state, bounds_by: by } = details;
  const isOver = state === "Finished";
  return (
    <>
      <Stat hint="Subtasks now, of all vertices together, and their bounds" label="Parallelism">
        <Text as="span" fontWeight="bold" title={parallelism === null ? "" : text(parallelism)}>
          {isOver ? "–" : count(total(parallelism))}
        </Text>{" "}
        <Text as="span" color="fg.muted">
          of {bounds(totalRange(requirements))}
        </Text>
      </Stat>
      {by && (
        <Stat hint={plain(by.reason)} label="Bounds set by">
          {setter(by)}
          {details.policy?.dry_run && (
            <Badge colorPalette="orange" ml={2} size="xs" variant="solid">
              Dry run
            </Badge>
          )}
        </Stat>
      )}
      <Stat hint="Held by the job, of those that it holds or was offered" label="Slots">
        {slots === null || isOver ? "–" : `${exact(slots.held)} of ${exact(slots.available)}`}
      </Stat>
    </>
  );
};

/** What flows through it. */
const Flow = ({ details }: { details: JobDetails }) => {
  const figures = details.state === "Finished" ? null : details.figures;
  return (
    <>
      <Stat hint={exact(figures?.input)} label="Rows in">
        {rate(figures?.input)}
      </Stat>
      <Stat hint={exact(figures?.processed)} label="Processed">
        {rate(figures?.processed)}
      </Stat>
      <Stat label="Batch duration">{millis(figures?.batch_ms)}</Stat>
      <Stat hint={exact(figures?.backlog)} label="Backlog">
        {count(figures?.backlog)}
      </Stat>
    </>
  );
};

/** What it went through. */
const Life = ({ details }: { details: JobDetails }) => {
  const { task } = details;
  return (
    <>
      <Stat label="Rescales">{exact(details.rescales)}</Stat>
      <Stat hint="Rescales included" label="Restarts">
        {exact(details.restarts)}
      </Stat>
      <Stat label="Failures">
        <Box as="span" color={details.failures > 0 ? "fg.error" : "inherit"}>
          {exact(details.failures)}
        </Box>
      </Stat>
      <Stat label="Last shown">
        <Moment at={details.updated_at} />
      </Stat>
      {task !== null && (
        <Stat hint={`run ${task.run_id}`} label="Task">
          {task.dag_id} · {task.task_id}
          {task.map_index >= 0 ? ` [${task.map_index}]` : ""}
        </Stat>
      )}
    </>
  );
};
