import { VisuallyHidden } from "@chakra-ui/react";

/** Announces changes to screen readers, which read the text whenever it changes. */
export const Announcer = ({ text }: { text: string }) => (
  <VisuallyHidden aria-live="polite" role="status">
    {text}
  </VisuallyHidden>
);
