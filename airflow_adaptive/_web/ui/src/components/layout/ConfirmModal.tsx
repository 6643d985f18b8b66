import { Button, Stack } from "@chakra-ui/react";
import { type ReactNode, useRef } from "react";
import { Modal } from "./Modal";
import { ProblemAlert } from "../feedback/ProblemAlert";

interface Props {
  title: string;
  verb: string;
  color: string;
  mutation: { isPending: boolean; error: Error | null; mutate: () => void };
  onClose: () => void;
  children: ReactNode;
}

/** Requires a confirmation, starts the action, and shows the error if the action fails. */
export const ConfirmModal = ({ title, verb, color, mutation, onClose, children }: Props) => {
  const back = useRef<HTMLButtonElement>(null);
  return (
    <Modal
      footer={
        <>
          <Button onClick={onClose} ref={back} variant="outline">
            Back
          </Button>
          <Button colorPalette={color} loading={mutation.isPending} onClick={() => mutation.mutate()}>
            {verb}
          </Button>
        </>
      }
      initialFocus={back}
      onClose={onClose}
      title={title}
    >
      <Stack gap={3}>
        {children}
        {mutation.error !== null && <ProblemAlert error={mutation.error} />}
      </Stack>
    </Modal>
  );
};
