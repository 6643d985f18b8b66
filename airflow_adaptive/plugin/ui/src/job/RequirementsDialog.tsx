import { Button } from "@chakra-ui/react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask } from "../api/client";
import { ProblemError } from "../api/problem";
import { jobPath, requirementsQuery } from "../api/queries";
import type { JobDetails, Requirements } from "../api/types";
import { Loaded } from "../components/Loaded";
import { Modal } from "../components/Modal";
import { bodyOf, type Draft, draftOf, isSame, isSound, rangesOf } from "../lib/requirements";
import { RequirementsForm } from "./RequirementsForm";

interface Props {
  details: JobDetails;
  onClose: () => void;
}

/** Changes what a job may use: checked while it is typed, tried out, then applied, unless somebody else was first. */
export const RequirementsDialog = ({ details, onClose }: Props) => {
  const { job, vertices } = details;
  const query = useQuery(requirementsQuery(job));
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft | null>(null);
  const known = query.data === undefined ? null : draftOf(rangesOf(query.data.body));
  const shown = draft ?? known;
  const mutation = useMutation({
    mutationFn: (asked: Draft) =>
      ask<Requirements>(jobPath(job, "/resource-requirements"), {
        method: "PUT",
        body: bodyOf(asked),
        ifMatch: query.data?.etag ?? null,
      }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["job", job] });
      onClose();
    },
  });
  const isLate = mutation.error instanceof ProblemError && mutation.error.status === 412;
  const readAgain = () => {
    mutation.reset();
    setDraft(null);
    void query.refetch();
  };
  const isChanged = shown !== null && known !== null && !isSame(shown, known);
  const isReady = shown !== null && isSound(shown, vertices) && isChanged;
  return (
    <Modal
      footer={
        <>
          <Button onClick={onClose} variant="outline">
            Close
          </Button>
          {isLate ? (
            <Button colorPalette="steel" onClick={readAgain}>
              Read them again
            </Button>
          ) : (
            <Button
              colorPalette="steel"
              disabled={!isReady}
              loading={mutation.isPending}
              onClick={() => shown !== null && mutation.mutate(shown)}
            >
              Apply
            </Button>
          )}
        </>
      }
      onClose={onClose}
      size="xl"
      title={`Resource requirements of ${job}`}
    >
      <Loaded lines={4} query={query}>
        {() =>
          shown !== null && (
            <RequirementsForm
              details={details}
              draft={shown}
              error={mutation.error}
              isChanged={isChanged}
              onChange={setDraft}
            />
          )
        }
      </Loaded>
    </Modal>
  );
};
