import { Box, Skeleton, Stack, Text } from "@chakra-ui/react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ask } from "../api/client";
import { jobPath } from "../api/queries";
import type { Preview } from "../api/types";
import { ProblemAlert } from "../components/ProblemAlert";
import { exact, moment } from "../lib/format";
import { change } from "../lib/parallelism";
import { plain } from "../lib/plain";
import { bodyOf, type Draft } from "../lib/requirements";
import { tierText } from "../lib/states";

interface Props {
  job: string;
  draft: Draft;
  isSound: boolean;
  isChanged: boolean;
}

/** Time without a keystroke until the scheduler is asked. */
const QUIET_MS = 350;

/** What the scheduler would do now with the draft: it is asked, and nothing is changed. */
export const PreviewPanel = ({ job, draft, isSound, isChanged }: Props) => {
  const text = useQuiet(JSON.stringify(draft));
  const query = useQuery({
    queryKey: ["preview", job, text],
    queryFn: ({ signal }) =>
      ask<Preview>(jobPath(job, "/resource-requirements:preview"), {
        method: "POST",
        body: bodyOf(JSON.parse(text) as Draft),
        signal,
      }),
    enabled: isSound && isChanged && text === JSON.stringify(draft),
    placeholderData: keepPreviousData,
    gcTime: 0,
    staleTime: 5_000,
  });
  return (
    <Box aria-live="polite" bg="bg.subtle" borderRadius="md" minHeight="28" p={4}>
      <Text color="fg.muted" fontSize="xs" fontWeight="bold" mb={1}>
        What would happen
      </Text>
      <Outcome isChanged={isChanged} isSound={isSound} query={query} />
    </Box>
  );
};

const Outcome = ({
  isSound,
  isChanged,
  query,
}: Pick<Props, "isSound" | "isChanged"> & {
  query: { data: { body: Preview } | undefined; error: Error | null };
}) => {
  if (!isSound) return <Text fontSize="sm">Mend what is marked first.</Text>;
  if (!isChanged) return <Text fontSize="sm">These are the requirements that the job has.</Text>;
  if (query.error !== null) return <ProblemAlert error={query.error} />;
  return query.data === undefined ? <Skeleton height="12" /> : <Told preview={query.data.body} />;
};

const CONSEQUENCES: Record<string, string> = {
  NOTHING: "Nothing changes: the job goes on as it is.",
  RESCALE: "The job rescales.",
  START: "The job, which waits, starts.",
  WAIT_FOR_SLOTS: "The job goes on as it is, until more slots are there.",
  STOP_AND_WAIT: "The job stops, since what it has is below the lower bound, and waits for slots.",
  LATER: "The job follows when it is through with what it does now.",
};

const Told = ({ preview }: { preview: Preview }) => {
  const parallelism = change(preview.before, preview.after);
  const tier = tierText(preview.tier);
  const { available, minimum, maximum, missing } = preview.slots;
  return (
    <Stack fontSize="sm" gap={1}>
      <Text fontWeight="semibold">
        {CONSEQUENCES[preview.consequence] ?? preview.consequence}
        {parallelism !== null && preview.after !== null && ` Parallelism ${parallelism}.`}
      </Text>
      <Text overflowWrap="anywhere">{plain(preview.reason)}</Text>
      {tier !== null && <Text>How: {tier}.</Text>}
      {preview.held_back_until !== null && (
        <Text>The cooldown holds it back until {moment(preview.held_back_until)}.</Text>
      )}
      {preview.at !== null && <Text>At the latest {moment(preview.at)}.</Text>}
      <Text color="fg.muted">
        Slots: {exact(available)} at hand, {exact(minimum)} needed, {exact(maximum)} used at most
        {missing > 0 ? `, ${exact(missing)} missing` : ""}.
      </Text>
    </Stack>
  );
};

const useQuiet = (value: string): string => {
  const [quiet, setQuiet] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setQuiet(value), QUIET_MS);
    return () => window.clearTimeout(timer);
  }, [value]);
  return quiet;
};
