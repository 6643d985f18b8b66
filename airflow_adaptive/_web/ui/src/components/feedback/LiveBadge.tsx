import { Badge, Box } from "@chakra-ui/react";
import type { Connection } from "../../api/live";
import { duration } from "../../lib/format/format";

interface Props {
  connection: Connection;
  /** Seconds since the job published something, null if it has published nothing. */
  staleFor: number | null;
}

/** Age of a published state that the REST API calls stale, too. A running job publishes its metrics every 10 seconds. */
const STALE_S = 120;

const BADGES: Record<Connection, [string, string, string]> = {
  connecting: ["gray", "Connecting", "The page is connecting to the server."],
  live: ["green", "Live", "The page shows changes immediately."],
  polling: ["yellow", "Polling", "No event stream is available. The page polls every 5 seconds."],
  offline: ["red", "Offline", "Your browser has no network connection. The page shows old data."],
};

/** Whether the page shows current data. */
export const LiveBadge = ({ connection, staleFor }: Props) => {
  const isStale = connection !== "offline" && staleFor !== null && staleFor > STALE_S;
  const [color, label, title] = isStale
    ? [
        "orange",
        `Stale: ${duration(staleFor - (staleFor % 60))}`,
        "The control loop of the job has published nothing for this time. Check that the triggerer is running.",
      ]
    : BADGES[connection];
  return (
    <Badge aria-live="polite" colorPalette={color} gap={1.5} role="status" title={title} variant="surface">
      <Box aria-hidden bg="colorPalette.solid" borderRadius="full" boxSize="1.5" />
      {label}
    </Badge>
  );
};
