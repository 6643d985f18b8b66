import { Badge, Box, Button, Flex, Grid, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { PlannedWorker, Subtask } from "../api/types";
import { exact } from "../lib/format";
import { vertexColor } from "./vertexColor";

/** Workers drawn at first; more on request. */
const PAGE = 24;

/** Subtasks of a slot that are named; the rest is counted. */
const MOST_SUBTASKS = 12;

/** Each worker with its slots, each slot with its subtasks; bars compare the loads. */
export const Workers = ({ workers, vertices }: { workers: PlannedWorker[]; vertices: string[] }) => {
  const [shown, setShown] = useState(PAGE);
  const largest = Math.max(...workers.map(({ load }) => load), 0);
  return (
    <>
      <Grid
        as="ul"
        gap={3}
        gridTemplateColumns="repeat(auto-fill, minmax(min(100%, 18rem), 1fr))"
        listStyleType="none"
      >
        {workers.slice(0, shown).map((worker) => (
          <Worker key={worker.worker} largest={largest} vertices={vertices} worker={worker} />
        ))}
      </Grid>
      {workers.length > shown && (
        <Button mt={3} onClick={() => setShown(shown + 4 * PAGE)} size="sm" variant="outline">
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
        Too many subtasks to show them.
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
    {subtasks.slice(0, MOST_SUBTASKS).map(({ vertex, index }) => (
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
    {subtasks.length > MOST_SUBTASKS && <Text fontSize="xs">and {subtasks.length - MOST_SUBTASKS} more</Text>}
    {subtasks.length === 0 && (
      <Text color="fg.muted" fontSize="xs">
        idle
      </Text>
    )}
  </Flex>
);
