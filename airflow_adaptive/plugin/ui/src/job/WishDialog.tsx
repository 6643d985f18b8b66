import { Text } from "@chakra-ui/react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ask } from "../api/client";
import { jobPath } from "../api/queries";
import type { JobDetails } from "../api/types";
import { ConfirmModal } from "../components/ConfirmModal";

export type Wish = "suspend" | "resume" | "cancel";

interface Words {
  title: string;
  text: string[];
  verb: string;
  color: string;
}

const WORDS: Record<Wish, Words> = {
  suspend: {
    title: "Suspend",
    verb: "Suspend",
    color: "steel",
    text: [
      "The job stops at a batch boundary, with a savepoint; its task succeeds, and its slots go back to the cluster.",
      "It can be resumed later, and goes on from there: nothing is lost, nothing is processed twice.",
    ],
  },
  resume: {
    title: "Resume",
    verb: "Resume",
    color: "steel",
    text: ["Airflow runs the job's task again, and the job goes on from where it stopped."],
  },
  cancel: {
    title: "Cancel",
    verb: "Cancel this job",
    color: "red",
    text: [
      "The job stops at a batch boundary, for good: this can't be taken back.",
      "To stop it for a while, suspend it instead. A new DAG run starts it again, from its checkpoint.",
    ],
  },
};

interface Props {
  details: JobDetails;
  desired_state: Wish;
  onClose: () => void;
}

/** Asks before it asks the job. */
export const WishDialog = ({ details, desired_state, onClose }: Props) => {
  const { title, text, verb, color } = WORDS[desired_state];
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => ask<JobDetails>(jobPath(details.job, `/${desired_state}`), { method: "POST", body: {} }),
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
