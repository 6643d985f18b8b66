import { Text } from "@chakra-ui/react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ask } from "../api/client";
import { jobPath } from "../api/queries";
import type { BoundsBy, JobDetails } from "../api/types";
import { ConfirmModal } from "../components/ConfirmModal";
import { setter, successor } from "../lib/policies";

interface Props {
  by: BoundsBy;
  details: JobDetails;
  onClose: () => void;
}

/** Asks before it ends the bounds that a person has set. */
export const LiftDialog = ({ by, details, onClose }: Props) => {
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => ask<unknown>(jobPath(details.job, "/resource-requirements"), { method: "DELETE" }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["job", details.job] });
      onClose();
    },
  });
  return (
    <ConfirmModal
      color="steel"
      mutation={mutation}
      onClose={onClose}
      title={`Lift the bounds of ${details.job}?`}
      verb="Lift them"
    >
      <Text overflowWrap="anywhere">Those that {setter(by)} has set end now.</Text>
      <Text>{successor(details.policy)}</Text>
    </ConfirmModal>
  );
};
