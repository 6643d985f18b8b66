import { Badge, Stack, Table, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { LuLayoutGrid } from "react-icons/lu";
import { planQuery } from "../../api/queries";
import type { PlanDetails, PlannedVertex } from "../../api/types";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import { Loaded } from "../../components/feedback/Loaded";
import { Moment } from "../../components/values/Moment";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { Stat, StatList } from "../../components/layout/Stat";
import { exact } from "../../lib/format/format";
import { bounds } from "../../lib/format/parallelism";
import { Sources } from "./Sources";
import { Swatch, vertexColor } from "./vertexColor";
import { Workers } from "./Workers";

const BALANCE: Record<string, string> = {
  none: "Not balanced",
  slots: "Slots spread over workers",
  tasks: "Subtasks spread over slots and workers",
};

/** The placement of the subtasks: vertices, slots and workers. */
export const PlanTab = ({ job }: { job: string }) => {
  const query = useQuery(planQuery(job));
  return (
    <Loaded query={query}>
      {(plan) => (
        <Stack gap={4}>
          <Slots plan={plan} />
          <Section title="Vertices">
            <Vertices vertices={plan.vertices} />
          </Section>
          <Section
            aside={
              <Text color="fg.muted" fontSize="xs">
                {BALANCE[plan.load_balance_mode] ?? plan.load_balance_mode}
              </Text>
            }
            title="Workers and their slots"
          >
            {plan.workers.length === 0 ? (
              <Placeholder
                icon={LuLayoutGrid}
                title={plan.version === null ? "No plan is active" : "The job is waiting for slots"}
              >
                {plan.version === null
                  ? "The scheduler creates a plan when the job has enough slots."
                  : "The job does not hold all slots of the plan yet."}
              </Placeholder>
            ) : (
              <Workers vertices={plan.vertices.map(({ name }) => name)} workers={plan.workers} />
            )}
          </Section>
          <Sources queries={plan.queries} />
          <Executors plan={plan} />
        </Stack>
      )}
    </Loaded>
  );
};

const Slots = ({ plan: { slots, imbalance, version, reported_at } }: { plan: PlanDetails }) => (
  <Section title="Slots">
    <StatList>
      <Stat hint="Version of the scheduler state that created the plan" label="Plan">
        {version === null ? "none" : `version ${version}`}
      </Stat>
      <Stat label="Planned">{exact(slots.planned)}</Stat>
      <Stat
        hint="Slots that the driver may hold: those beyond the plan stay for slot_idle_timeout after a rescale"
        label="Allowed"
      >
        {exact(slots.kept)}
      </Stat>
      <Stat hint="Slots of executors that are registered with the driver" label="Registered">
        {exact(slots.held)}
      </Stat>
      <Stat hint="Slots that the job holds or was offered" label="Available">
        {exact(slots.available)}
      </Stat>
      {slots.standby !== null && (
        <Stat
          hint="The driver that can replace the running one, and the slots of its executors"
          label="Standby"
        >
          {slots.standby_prepared ? "prepared" : "preparing"} with {exact(slots.standby)} slot
          {slots.standby === 1 ? "" : "s"}
        </Stat>
      )}
      <Stat hint="Minimum number of slots to run, and maximum number of slots in use" label="Bounds">
        {bounds({ lower: slots.minimum, upper: slots.maximum })}
      </Stat>
      <Stat
        hint="Largest load of a worker as a multiple of the average. 1 means an even load"
        label="Imbalance"
      >
        {imbalance === null ? "–" : `${exact(imbalance)} ×`}
      </Stat>
      <Stat label="Driver status">
        <Moment at={reported_at} />
      </Stat>
    </StatList>
  </Section>
);

const VERTEX_COLUMNS = ["Vertex", "Planned", "Effective", "Bounds", "Maximum", "Slot sharing group", "State"];

const Vertices = ({ vertices }: { vertices: PlannedVertex[] }) => (
  <Table.ScrollArea>
    <Table.Root aria-label="Vertices" size="sm">
      <ColumnHeaders names={VERTEX_COLUMNS} />
      <Table.Body>
        {vertices.map((vertex, index) => (
          <Table.Row fontVariantNumeric="tabular-nums" key={vertex.name}>
            <Table.Cell maxWidth="sm" overflowWrap="anywhere">
              <Swatch color={vertexColor(index)} /> {vertex.name}
            </Table.Cell>
            <Table.Cell>{exact(vertex.planned)}</Table.Cell>
            <Table.Cell>
              {exact(vertex.effective)}{" "}
              {vertex.planned !== null &&
                vertex.effective !== null &&
                vertex.effective !== vertex.planned && <Badge colorPalette="orange">differs</Badge>}
            </Table.Cell>
            <Table.Cell>{bounds(vertex)}</Table.Cell>
            <Table.Cell>{exact(vertex.max_parallelism)}</Table.Cell>
            <Table.Cell overflowWrap="anywhere">{vertex.slot_sharing_group}</Table.Cell>
            <Table.Cell>{vertex.stateful ? "stateful" : "stateless"}</Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  </Table.ScrollArea>
);

const EXECUTOR_COLUMNS = ["Executor", "Cores", "Worker"];

const Executors = ({ plan: { executors } }: { plan: PlanDetails }) => (
  <Section title="Executors">
    {executors.length === 0 ? (
      <Text color="fg.muted" fontSize="sm">
        The driver reports no executors.
      </Text>
    ) : (
      <Table.ScrollArea maxHeight="80">
        <Table.Root aria-label="Executors" size="sm" stickyHeader>
          <ColumnHeaders names={EXECUTOR_COLUMNS} />
          <Table.Body>
            {executors.map((executor) => (
              <Table.Row key={executor.executor_id}>
                <Table.Cell>{executor.executor_id}</Table.Cell>
                <Table.Cell>{exact(executor.cores)}</Table.Cell>
                <Table.Cell overflowWrap="anywhere">{executor.worker}</Table.Cell>
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      </Table.ScrollArea>
    )}
  </Section>
);
