import { Badge, Box, Button, Flex, Grid, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { PlannedWorker, Subtask } from "../../api/types";
import { exact } from "../../lib/format/format";
import { vertexColor } from "./vertexColor";

/** Number of workers that are visible at first. */
const PAGE = 24;

/** Number of subtasks of a slot that are listed by name. */
const MAX_SUBTASKS = 12;

/** The workers with their slots, and the slots with their subtasks. Bars compare the loads of the workers. */
export const Workers = ({ workers, vertices }: { workers: PlannedWorker[]; vertices: string[] }) => {
  const [visible, setVisible] = useState(PAGE);
  const largest = Math.max(...workers.map(({ load }) => load), 0);
  return (
    <>
      <Grid
        as="ul"
        gap={3}
        gridTemplateColumns="repeat(auto-fill, minmax(min(100%, 18rem), 1fr))"
        listStyleType="none"
      >
        {workers.slice(0, visible).map((worker) => (
          <Worker key={worker.worker} largest={largest} vertices={vertices} worker={worker} />
        ))}
      </Grid>
      {workers.length > visible && (
        <Button mt={3} onClick={() => setVisible(visible + 4 * PAGE)} size="sm" variant="outline">
          Show more of {exact(workers.length)} workers
        </Button>
      )}
    </>
  );
};

interface WorkerProps {
  worker: PlannedWorker;
  vertices: string[];
  largest: number;
}

const Worker = ({ worker, vertices, largest }: WorkerProps) => (
  <Box as="li" bg="bg.subtle" borderColor="border" borderRadius="md" borderWidth={1} minWidth={0} p={3}>
    <Heading as="h3" fontSize="sm" fontWeight="semibold" overflowWrap="anywhere" title={worker.worker}>
      {worker.address === "" ? worker.worker || "not placed yet" : worker.address}
    </Heading>
    {worker.address !== "" && (
      <Text color="fg.muted" fontSize="xs" title={worker.worker} truncate>
        {worker.worker}
      </Text>
    )}
    <Flex align="center" fontSize="xs" gap={2} my={2} whiteSpace="nowrap">
      load {exact(worker.load)}
      <Box bg="bg.emphasized" borderRadius="full" flex="1" height="1.5" overflow="hidden">
        <Box
          bg="blue.solid"
          height="full"
          style={{ width: `${largest > 0 ? (100 * worker.load) / largest : 0}%` }}
        />
      </Box>
      {exact(worker.slot_count)} slot{worker.slot_count === 1 ? "" : "s"}
    </Flex>
    {worker.slots === null ? (
      <Text color="fg.muted" fontSize="xs">
        There are too many subtasks to list them.
      </Text>
    ) : (
      <Flex as="ul" direction="column" gap={1.5} listStyleType="none">
        {worker.slots.map((subtasks, index) => (
          <Slot key={index} number={index + 1} subtasks={subtasks} vertices={vertices} />
        ))}
      </Flex>
    )}
  </Box>
);

interface SlotProps {
  number: number;
  subtasks: Subtask[];
  vertices: string[];
}

const Slot = ({ number, subtasks, vertices }: SlotProps) => (
  <Flex
    align="center"
    aria-label={`Slot ${number}`}
    as="li"
    bg="bg.panel"
    borderColor="border"
    borderRadius="sm"
    borderWidth={1}
    gap={1}
    minHeight="7"
    px={1.5}
    py={1}
    wrap="wrap"
  >
    {subtasks.slice(0, MAX_SUBTASKS).map(({ vertex, index }) => (
      <Badge
        colorPalette={vertexColor(vertices.indexOf(vertex))}
        key={`${vertex}-${index}`}
        maxWidth="full"
        size="xs"
        title={`${vertex}, subtask ${index}`}
      >
        <Text as="span" truncate>
          {vertex}
        </Text>
        [{index}]
      </Badge>
    ))}
    {subtasks.length > MAX_SUBTASKS && <Text fontSize="xs">and {subtasks.length - MAX_SUBTASKS} more</Text>}
    {subtasks.length === 0 && (
      <Text color="fg.muted" fontSize="xs">
        idle
      </Text>
    )}
  </Flex>
);
