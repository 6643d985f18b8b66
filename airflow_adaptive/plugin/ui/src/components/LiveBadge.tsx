import { Badge, Box } from "@chakra-ui/react";
import type { Connection } from "../api/live";
import { duration } from "../lib/format";

interface Props {
  connection: Connection;
  /** Seconds since the job showed something, null if it need not. */
  staleFor: number | null;
}

/** A job that runs shows something every 10 seconds. */
const STALE_S = 60;

const SHOWN: Record<Connection, [string, string, string]> = {
  connecting: ["gray", "Connecting", "The connection is being made."],
  live: ["green", "Live", "Changes are shown as they happen."],
  polling: ["yellow", "Polling", "No live events: asked anew every 5 seconds."],
  offline: ["red", "Offline", "Your browser has no network: what is shown is old."],
};

/** Whether what is shown is what is. */
export const LiveBadge = ({ connection, staleFor }: Props) => {
  const isStale = connection !== "offline" && staleFor !== null && staleFor > STALE_S;
  const [color, label, title] = isStale
    ? [
        "orange",
        `Stale: ${duration(staleFor - (staleFor % 60))}`,
        "The job's loop has shown nothing for this long: is the triggerer running?",
      ]
    : SHOWN[connection];
  return (
    <Badge aria-live="polite" colorPalette={color} gap={1.5} role="status" title={title} variant="surface">
      <Box aria-hidden bg="colorPalette.solid" borderRadius="full" boxSize="1.5" />
      {label}
    </Badge>
  );
};
