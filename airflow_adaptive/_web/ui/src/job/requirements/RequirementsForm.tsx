import { Box, Button, Field, Grid, Input, Stack, Text } from "@chakra-ui/react";
import { useId } from "react";
import type { JobDetails, Vertex } from "../../api/types";
import { ProblemAlert } from "../../components/feedback/ProblemAlert";
import { exact } from "../../lib/format/format";
import type { Expiry } from "./expiry";
import { validity, sourceText } from "../../lib/scheduler/requirementsSource";
import { type Draft, type DraftBounds, violations, isValid } from "./draft";
import { ExpiryField } from "./ExpiryField";
import { PreviewPanel } from "./PreviewPanel";

interface Props {
  details: JobDetails;
  draft: Draft;
  error: Error | null;
  expiry: Expiry;
  isChanged: boolean;
  onChange: (draft: Draft) => void;
  onExpiry: (expiry: Expiry) => void;
}

/** The bounds of every vertex, and a preview of their effect. */
export const RequirementsForm = ({ details, draft, error, expiry, isChanged, onChange, onExpiry }: Props) => {
  const { vertices, parallelism, job, requirements_source: by, policy } = details;
  const declared = () =>
    onChange(
      Object.fromEntries(
        vertices.map(({ name, lower, upper }) => [name, { lower: `${lower}`, upper: `${upper}` }]),
      ),
    );
  return (
    <Stack gap={4}>
      <Text color="fg.muted" fontSize="sm">
        The job runs each vertex with the largest parallelism between these bounds for which it has slots. The
        job applies a change within seconds, or after the cooldown of its last rescale.
        {policy &&
          !policy.dry_run &&
          " These bounds override the rescale policy until they expire or you clear them."}
      </Text>
      {by && (
        <Text fontSize="sm" overflowWrap="anywhere">
          Currently set by <b>{sourceText(by)}</b>
          {validity(by) === null ? "" : `, ${validity(by)}`}.
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
          Use the bounds of the DAG
        </Button>
      </Box>
      <ExpiryField expiry={expiry} onChange={onExpiry} />
      {error !== null && <ProblemAlert error={error} />}
      <PreviewPanel draft={draft} isChanged={isChanged} isValid={isValid(draft, vertices)} job={job} />
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
  const errors = violations(bounds, vertex);
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
          now {exact(now)}, declared {vertex.lower}–{vertex.upper}, at most {exact(vertex.max_parallelism)}
        </Text>
      </Box>
      <Bound
        error={errors.lower}
        label="Lower bound"
        onChange={(lower) => onChange({ ...bounds, lower })}
        value={bounds.lower}
      />
      <Bound
        error={errors.upper}
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
