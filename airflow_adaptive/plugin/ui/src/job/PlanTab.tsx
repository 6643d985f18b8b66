import { Badge, Stack, Table, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { LuLayoutGrid } from "react-icons/lu";
import { planQuery } from "../api/queries";
import type { Plan, PlannedVertex } from "../api/types";
import { ColumnHeaders } from "../components/ColumnHeaders";
import { Loaded } from "../components/Loaded";
import { Moment } from "../components/Moment";
import { Notice } from "../components/Notice";
import { Section } from "../components/Section";
import { Stat, StatList } from "../components/Stat";
import { exact } from "../lib/format";
import { bounds } from "../lib/parallelism";
import { Swatch, vertexColor } from "./vertexColor";
import { Workers } from "./Workers";

const BALANCE: Record<string, string> = {
  none: "Not balanced",
  slots: "Slots spread over workers",
  tasks: "Subtasks spread over slots and workers",
};

/** Where the job's subtasks run: vertices, slots, workers. */
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
              <Notice
                icon={LuLayoutGrid}
                title={plan.version === null ? "No plan is in force" : "Slots are on their way"}
              >
                {plan.version === null
                  ? "There is one as soon as the job has enough slots."
                  : "Not all slots of the plan are held yet."}
              </Notice>
            ) : (
              <Workers vertices={plan.vertices.map(({ name }) => name)} workers={plan.workers} />
            )}
          </Section>
          <Executors plan={plan} />
        </Stack>
      )}
    </Loaded>
  );
};

const Slots = ({ plan: { slots, imbalance, version, reported_at } }: { plan: Plan }) => (
  <Section title="Slots">
    <StatList>
      <Stat hint="Version of the scheduler's state that made the plan" label="Plan">
        {version === null ? "none" : `version ${version}`}
      </Stat>
      <Stat label="Planned">{exact(slots.planned)}</Stat>
      <Stat hint="That the driver may hold: those above the plan are idle, for a while" label="Kept">
        {exact(slots.kept)}
      </Stat>
      <Stat label="Held">{exact(slots.held)}</Stat>
      <Stat hint="Held, or offered" label="Available">
        {exact(slots.available)}
      </Stat>
      <Stat hint="Without which the job can't run, and that it takes at most" label="Bounds">
        {bounds({ lower: slots.minimum, upper: slots.maximum })}
      </Stat>
      <Stat hint="Largest load of a worker as a multiple of the average: 1 is even" label="Imbalance">
        {imbalance === null ? "–" : `${exact(imbalance)} ×`}
      </Stat>
      <Stat label="Driver's report">
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

const Executors = ({ plan: { executors } }: { plan: Plan }) => (
  <Section title="Executors">
    {executors.length === 0 ? (
      <Text color="fg.muted" fontSize="sm">
        No driver reports any.
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
