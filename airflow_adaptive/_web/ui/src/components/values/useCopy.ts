import { useState } from "react";

const COPIED_MS = 2_000;

/** Whether a text was copied a moment ago, and the function that copies it to the clipboard. */
export const useCopy = (text: string): [boolean, () => void] => {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      window.setTimeout(() => setCopied(false), COPIED_MS);
    });
  return [copied, copy];
};
