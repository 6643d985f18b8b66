import { Box, Button, Field, Grid, Input, Stack, Text } from "@chakra-ui/react";
import { useId } from "react";
import type { JobDetails, Vertex } from "../api/types";
import { ProblemAlert } from "../components/ProblemAlert";
import { exact } from "../lib/format";
import type { Hold } from "../lib/holding";
import { holds, setter } from "../lib/policies";
import { type Draft, type DraftBounds, violations, isSound } from "../lib/requirements";
import { HoldField } from "./HoldField";
import { PreviewPanel } from "./PreviewPanel";

interface Props {
  details: JobDetails;
  draft: Draft;
  error: Error | null;
  hold: Hold;
  isChanged: boolean;
  onChange: (draft: Draft) => void;
  onHold: (hold: Hold) => void;
}

/** Bounds of every vertex, and what they would lead to. */
export const RequirementsForm = ({ details, draft, error, hold, isChanged, onChange, onHold }: Props) => {
  const { vertices, parallelism, job, bounds_by: by, policy } = details;
  const declared = () =>
    onChange(
      Object.fromEntries(
        vertices.map(({ name, lower, upper }) => [name, { lower: `${lower}`, upper: `${upper}` }]),
      ),
    );
  return (
    <Stack gap={4}>
      <Text color="fg.muted" fontSize="sm">
        The job runs each vertex with a parallelism between these bounds: as much as it has slots for. It
        follows a change within seconds, or after the cooldown of its last rescale.
        {policy && !policy.dry_run && " They win over its rescale policy as long as they hold."}
      </Text>
      {by && (
        <Text fontSize="sm" overflowWrap="anywhere">
          Now set by <b>{setter(by)}</b>
          {holds(by) === null ? "" : `, ${holds(by)}`}.
        </Text>
      )}
      <Stack gap={3}>
        {vertices.map((vertex) => (
          <VertexRow
            bounds={draft[vertex.name] ?? { lower: "", upper: "" }}
            key={vertex.name}
            now={parallelism?.[vertex.name] ?? null}
            onChange={(bounds) => onChange({ ...draft, [vertex.name]: bounds })}
            vertex={vertex}
          />
        ))}
      </Stack>
      <Box>
        <Button onClick={declared} size="xs" variant="outline">
          Take those of the DAG
        </Button>
      </Box>
      <HoldField hold={hold} onChange={onHold} />
      {error !== null && <ProblemAlert error={error} />}
      <PreviewPanel draft={draft} isChanged={isChanged} isSound={isSound(draft, vertices)} job={job} />
    </Stack>
  );
};

interface RowProps {
  vertex: Vertex;
  bounds: DraftBounds;
  now: number | null;
  onChange: (bounds: DraftBounds) => void;
}

const VertexRow = ({ vertex, bounds, now, onChange }: RowProps) => {
  const id = useId();
  const wrong = violations(bounds, vertex);
  return (
    <Grid
      alignItems="start"
      aria-labelledby={id}
      borderColor="border"
      borderRadius="md"
      borderWidth={1}
      gap={3}
      gridTemplateColumns={{ base: "1fr 1fr", md: "minmax(0, 1fr) 9rem 9rem" }}
      p={3}
      role="group"
    >
      <Box gridColumn={{ base: "1 / -1", md: "auto" }} minWidth={0}>
        <Text fontWeight="semibold" id={id} overflowWrap="anywhere">
          {vertex.name}
        </Text>
        <Text color="fg.muted" fontSize="xs">
          now {exact(now)}, by the DAG {vertex.lower}–{vertex.upper}, at most {exact(vertex.max_parallelism)}
        </Text>
      </Box>
      <Bound
        error={wrong.lower}
        label="Lower bound"
        onChange={(lower) => onChange({ ...bounds, lower })}
        value={bounds.lower}
      />
      <Bound
        error={wrong.upper}
        label="Upper bound"
        onChange={(upper) => onChange({ ...bounds, upper })}
        value={bounds.upper}
      />
    </Grid>
  );
};

interface BoundProps {
  label: string;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

const Bound = ({ label, value, error, onChange }: BoundProps) => (
  <Field.Root invalid={error !== undefined}>
    <Field.Label fontSize="xs">{label}</Field.Label>
    <Input
      autoComplete="off"
      inputMode="numeric"
      maxLength={20}
      onChange={(event) => onChange(event.target.value)}
      size="sm"
      value={value}
    />
    <Field.ErrorText aria-live="polite">{error}</Field.ErrorText>
  </Field.Root>
);
