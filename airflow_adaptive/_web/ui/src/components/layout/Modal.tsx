import { CloseButton, Dialog, Portal } from "@chakra-ui/react";
import type { ReactNode, RefObject } from "react";

interface Props {
  title: string;
  size?: "md" | "lg" | "xl";
  children: ReactNode;
  footer: ReactNode;
  onClose: () => void;
  /** Element with the initial focus. The default is the first focusable element. */
  initialFocus?: RefObject<HTMLElement | null>;
}

/** A dialog inside the page. Airflow's frame does not allow native dialogs. */
export const Modal = ({ title, size = "md", children, footer, onClose, initialFocus }: Props) => (
  <Dialog.Root
    onOpenChange={({ open }) => (open ? undefined : onClose())}
    open
    scrollBehavior="inside"
    size={{ mdDown: "full", md: size }}
    {...(initialFocus === undefined ? {} : { initialFocusEl: () => initialFocus.current })}
  >
    <Portal>
      <Dialog.Backdrop />
      <Dialog.Positioner>
        <Dialog.Content bg="bg.panel">
          <Dialog.Header>
            <Dialog.Title overflowWrap="anywhere">{title}</Dialog.Title>
          </Dialog.Header>
          <Dialog.Body>{children}</Dialog.Body>
          <Dialog.Footer>{footer}</Dialog.Footer>
          <Dialog.CloseTrigger asChild>
            <CloseButton aria-label="Close" size="sm" />
          </Dialog.CloseTrigger>
        </Dialog.Content>
      </Dialog.Positioner>
    </Portal>
  </Dialog.Root>
);
