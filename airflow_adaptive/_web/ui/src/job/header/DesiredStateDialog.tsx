import { Text } from "@chakra-ui/react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { request } from "../../api/client";
import { jobPath } from "../../api/queries";
import type { JobDetails } from "../../api/types";
import { ConfirmModal } from "../../components/layout/ConfirmModal";

export type StateAction = "suspend" | "resume" | "cancel";

interface DialogText {
  title: string;
  text: string[];
  verb: string;
  color: string;
}

const TEXTS: Record<StateAction, DialogText> = {
  suspend: {
    title: "Suspend",
    verb: "Suspend",
    color: "steel",
    text: [
      "The job stops at a batch boundary and keeps its checkpoint. Its task succeeds, and the cluster gets the slots of the job back.",
      "You can resume the job later. The job then continues from the checkpoint and processes every record exactly once.",
    ],
  },
  resume: {
    title: "Resume",
    verb: "Resume",
    color: "steel",
    text: ["Airflow runs the task of the job again. The job continues from its last checkpoint."],
  },
  cancel: {
    title: "Cancel",
    verb: "Cancel this job",
    color: "red",
    text: [
      "The job stops at a batch boundary, its task fails, and its bounds are cleared. A new DAG run continues from the checkpoint.",
    ],
  },
};

interface Props {
  details: JobDetails;
  action: StateAction;
  onClose: () => void;
}

/** Requires a confirmation before it changes the desired state of a job. */
export const DesiredStateDialog = ({ details, action, onClose }: Props) => {
  const { title, text, verb, color } = TEXTS[action];
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => request<JobDetails>(jobPath(details.job, `/${action}`), { method: "POST", body: {} }),
    onSuccess: ({ body }) => {
      client.setQueryData(["job", details.job, "details"], body);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      onClose();
    },
  });
  return (
    <ConfirmModal
      color={color}
      mutation={mutation}
      onClose={onClose}
      title={`${title} job ${details.job}?`}
      verb={verb}
    >
      {text.map((line) => (
        <Text key={line}>{line}</Text>
      ))}
    </ConfirmModal>
  );
};
