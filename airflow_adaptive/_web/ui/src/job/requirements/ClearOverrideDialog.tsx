import { Text } from "@chakra-ui/react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { request } from "../../api/client";
import { jobPath } from "../../api/queries";
import type { RequirementsSource, JobDetails } from "../../api/types";
import { ConfirmModal } from "../../components/layout/ConfirmModal";
import { sourceText, successorText } from "../../lib/scheduler/requirementsSource";

interface Props {
  by: RequirementsSource;
  details: JobDetails;
  onClose: () => void;
}

/** Requires a confirmation before it clears the requirements override of a user. */
export const ClearOverrideDialog = ({ by, details, onClose }: Props) => {
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => request<unknown>(jobPath(details.job, "/resource-requirements"), { method: "DELETE" }),
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
      title={`Clear the requirements override of ${details.job}?`}
      verb="Clear"
    >
      <Text overflowWrap="anywhere">The bounds that {sourceText(by)} set end now.</Text>
      <Text>{successorText(details.policy)}</Text>
    </ConfirmModal>
  );
};
