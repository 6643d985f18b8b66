import { Button, Stack, Text } from "@chakra-ui/react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { ask } from "../api/client";
import { jobPath } from "../api/queries";
import type { BoundsBy, JobDetails } from "../api/types";
import { Modal } from "../components/Modal";
import { ProblemAlert } from "../components/ProblemAlert";
import { setter, successor } from "../lib/policies";

interface Props {
  by: BoundsBy;
  details: JobDetails;
  onClose: () => void;
}

/** Asks before it ends the bounds that a person has set. */
export const LiftDialog = ({ by, details, onClose }: Props) => {
  const back = useRef<HTMLButtonElement>(null);
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => ask<unknown>(jobPath(details.job, "/resource-requirements"), { method: "DELETE" }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["job", details.job] });
      onClose();
    },
  });
  return (
    <Modal
      footer={
        <>
          <Button onClick={onClose} ref={back} variant="outline">
            Back
          </Button>
          <Button colorPalette="steel" loading={mutation.isPending} onClick={() => mutation.mutate()}>
            Lift them
          </Button>
        </>
      }
      initialFocus={back}
      onClose={onClose}
      title={`Lift the bounds of ${details.job}?`}
    >
      <Stack gap={3}>
        <Text overflowWrap="anywhere">Those that {setter(by)} has set end now.</Text>
        <Text>{successor(details.policy)}</Text>
        {mutation.error !== null && <ProblemAlert error={mutation.error} />}
      </Stack>
    </Modal>
  );
};
