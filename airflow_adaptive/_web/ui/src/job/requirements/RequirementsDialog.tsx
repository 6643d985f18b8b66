import { Button } from "@chakra-ui/react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { request } from "../../api/client";
import { ProblemError } from "../../api/problem";
import { jobPath, requirementsQuery } from "../../api/queries";
import type { JobDetails, Requirements } from "../../api/types";
import { Loaded } from "../../components/feedback/Loaded";
import { Modal } from "../../components/layout/Modal";
import { bodyOf, type Draft, draftOf, isSame, isValid, rangesOf } from "./draft";
import { type Expiry, expiryViolation, expiryQuery, NO_EXPIRY } from "./expiry";
import { useNow } from "../../lib/format/now";
import { isOverride } from "../../lib/scheduler/requirementsSource";
import { RequirementsForm } from "./RequirementsForm";

interface Props {
  details: JobDetails;
  onClose: () => void;
}

/** Edits the requirements of a job: validates the input, shows a preview, and applies the draft unless it is outdated. */
export const RequirementsDialog = ({ details, onClose }: Props) => {
  const { job, vertices } = details;
  const query = useQuery(requirementsQuery(job));
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft | null>(null);
  const known = query.data === undefined ? null : draftOf(rangesOf(query.data.body));
  const current = draft ?? known;
  const [expiry, setExpiry] = useState(NO_EXPIRY);
  const now = useNow();
  const mutation = useMutation({
    mutationFn: (requested: Draft) =>
      request<Requirements>(jobPath(job, `/resource-requirements${expiryQuery(expiry)}`), {
        method: "PUT",
        body: bodyOf(requested),
        ifMatch: query.data?.etag ?? null,
      }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["job", job] });
      onClose();
    },
  });
  const isOutdated = mutation.error instanceof ProblemError && mutation.error.status === 412;
  const readAgain = () => {
    mutation.reset();
    setDraft(null);
    void query.refetch();
  };
  const isChanged = current !== null && known !== null && !isSame(current, known);
  const isReady =
    current !== null && isValid(current, vertices) && isWorthApplying(details, expiry, isChanged, now);
  return (
    <Modal
      footer={
        <>
          <Button onClick={onClose} variant="outline">
            Close
          </Button>
          {isOutdated ? (
            <Button colorPalette="steel" onClick={readAgain}>
              Reload the bounds
            </Button>
          ) : (
            <Apply
              isPending={mutation.isPending}
              isReady={isReady}
              onClick={() => current !== null && mutation.mutate(current)}
            />
          )}
        </>
      }
      onClose={onClose}
      size="xl"
      title={`Parallelism of ${job}`}
    >
      <Loaded lines={4} query={query}>
        {() =>
          current !== null && (
            <RequirementsForm
              details={details}
              draft={current}
              error={mutation.error}
              expiry={expiry}
              isChanged={isChanged}
              onChange={setDraft}
              onExpiry={setExpiry}
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

/** A user can also set bounds that the job already has: the bounds then override the policy, or expire. */
const isWorthApplying = (details: JobDetails, expiry: Expiry, isChanged: boolean, now: number): boolean => {
  const isPinned = expiry.kind !== "never" || (!!details.policy && !isOverride(details.requirements_source));
  return expiryViolation(expiry, now) === null && (isChanged || isPinned);
};
