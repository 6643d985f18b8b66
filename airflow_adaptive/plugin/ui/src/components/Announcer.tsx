import { VisuallyHidden } from "@chakra-ui/react";

/** Tells screen readers what has changed: they read this when the text is another one. */
export const Announcer = ({ text }: { text: string }) => (
  <VisuallyHidden aria-live="polite" role="status">
    {text}
  </VisuallyHidden>
);
