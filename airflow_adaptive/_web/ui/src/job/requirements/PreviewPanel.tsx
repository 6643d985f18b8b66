import { Box, Skeleton, Stack, Text } from "@chakra-ui/react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { request } from "../../api/client";
import { jobPath } from "../../api/queries";
import type { RequirementsPreview } from "../../api/types";
import { ProblemAlert } from "../../components/feedback/ProblemAlert";
import { exact, moment } from "../../lib/format/format";
import { change } from "../../lib/format/parallelism";
import { readable } from "../../lib/format/reasonText";
import { bodyOf, type Draft } from "./draft";
import { tierText } from "../../lib/scheduler/states";

interface Props {
  job: string;
  draft: Draft;
  isValid: boolean;
  isChanged: boolean;
}

/** Time without a key press until the page requests a preview. */
const DEBOUNCE_MS = 350;

/** A dry run of the scheduler with the draft. The dry run changes nothing. */
export const PreviewPanel = ({ job, draft, isValid, isChanged }: Props) => {
  const text = useDebounced(JSON.stringify(draft));
  const query = useQuery({
    queryKey: ["preview", job, text],
    queryFn: ({ signal }) =>
      request<RequirementsPreview>(jobPath(job, "/resource-requirements:preview"), {
        method: "POST",
        body: bodyOf(JSON.parse(text) as Draft),
        signal,
      }),
    enabled: isValid && isChanged && text === JSON.stringify(draft),
    placeholderData: keepPreviousData,
    gcTime: 0,
    staleTime: 5_000,
  });
  return (
    <Box aria-live="polite" bg="bg.subtle" borderRadius="md" minHeight="28" p={4}>
      <Text color="fg.muted" fontSize="xs" fontWeight="bold" mb={1}>
        What would happen
      </Text>
      <Outcome isChanged={isChanged} isValid={isValid} query={query} />
    </Box>
  );
};

const Outcome = ({
  isValid,
  isChanged,
  query,
}: Pick<Props, "isValid" | "isChanged"> & {
  query: { data: { body: RequirementsPreview } | undefined; error: Error | null };
}) => {
  if (!isValid) return <Text fontSize="sm">Correct the marked fields first.</Text>;
  if (!isChanged) return <Text fontSize="sm">The job already has these bounds.</Text>;
  if (query.error !== null) return <ProblemAlert error={query.error} />;
  return query.data === undefined ? <Skeleton height="12" /> : <PreviewResult preview={query.data.body} />;
};

const CONSEQUENCES: Record<string, string> = {
  NOTHING: "Nothing changes.",
  RESCALE: "The job rescales.",
  START: "The waiting job starts.",
  WAIT_FOR_SLOTS: "The job keeps its parallelism until more slots are available.",
  STOP_AND_WAIT:
    "The job stops and waits for slots, because its slots are fewer than the lower bounds require.",
  LATER: "The job applies the bounds after its current state transition.",
};

const PreviewResult = ({ preview }: { preview: RequirementsPreview }) => {
  const parallelism = change(preview.before, preview.after);
  const tier = tierText(preview.tier);
  const { available, minimum, maximum, missing } = preview.slots;
  return (
    <Stack fontSize="sm" gap={1}>
      <Text fontWeight="semibold">
        {CONSEQUENCES[preview.consequence] ?? preview.consequence}
        {parallelism !== null && preview.after !== null && ` Parallelism ${parallelism}.`}
      </Text>
      <Text overflowWrap="anywhere">{readable(preview.reason)}</Text>
      {tier !== null && <Text>Rescale tier: {tier}.</Text>}
      {preview.cooldown_until !== null && (
        <Text>The cooldown delays the rescale until {moment(preview.cooldown_until)}.</Text>
      )}
      {preview.at !== null && <Text>The rescale starts at {moment(preview.at)} at the latest.</Text>}
      <Text color="fg.muted">
        Slots: {exact(available)} available, {exact(minimum)} required, {exact(maximum)} used at most
        {missing > 0 ? `, ${exact(missing)} missing` : ""}.
      </Text>
    </Stack>
  );
};

const useDebounced = (value: string): string => {
  const [debounced, setDebounced] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setDebounced(value), DEBOUNCE_MS);
    return () => window.clearTimeout(timer);
  }, [value]);
  return debounced;
};
