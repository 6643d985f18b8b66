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
import { type Hold, holdFinding, holdQuery, WITHOUT_END } from "../lib/holding";
import { useNow } from "../lib/now";
import { isOverride } from "../lib/policies";
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
  const [hold, setHold] = useState(WITHOUT_END);
  const now = useNow();
  const mutation = useMutation({
    mutationFn: (asked: Draft) =>
      ask<Requirements>(jobPath(job, `/resource-requirements${holdQuery(hold)}`), {
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
  const isReady = shown !== null && isSound(shown, vertices) && isWorthIt(details, hold, isChanged, now);
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
            <Apply
              isPending={mutation.isPending}
              isReady={isReady}
              onClick={() => shown !== null && mutation.mutate(shown)}
            />
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
              hold={hold}
              isChanged={isChanged}
              onChange={setDraft}
              onHold={setHold}
            />
          )
        }
      </Loaded>
    </Modal>
  );
};

const Apply = (props: { isReady: boolean; isPending: boolean; onClick: () => void }) => (
  <Button colorPalette="steel" disabled={!props.isReady} loading={props.isPending} onClick={props.onClick}>
    Apply
  </Button>
);

/** The bounds that the job has may be set, too: then they win over its policy, or end after a while. */
const isWorthIt = (details: JobDetails, hold: Hold, isChanged: boolean, now: number): boolean => {
  const isPinned = hold.kind !== "lifted" || (!!details.policy && !isOverride(details.bounds_by));
  return holdFinding(hold, now) === null && (isChanged || isPinned);
};
