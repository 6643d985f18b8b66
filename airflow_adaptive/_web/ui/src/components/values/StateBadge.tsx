import { Badge } from "@chakra-ui/react";
import type { IconType } from "react-icons";
import {
  LuBan,
  LuCircleCheck,
  LuCircleDashed,
  LuCircleHelp,
  LuCirclePause,
  LuCircleX,
  LuHourglass,
  LuPlay,
  LuRefreshCw,
  LuRocket,
} from "react-icons/lu";
import { styleOf } from "../../lib/scheduler/states";

const ICONS: Record<string, IconType> = {
  Created: LuCircleDashed,
  WaitingForResources: LuHourglass,
  Deploying: LuRocket,
  Executing: LuPlay,
  RestartingLocally: LuRefreshCw,
  Restarting: LuRefreshCw,
  StopWithSavepoint: LuCirclePause,
  Canceling: LuBan,
  Failing: LuCircleX,
  FINISHED: LuCircleCheck,
  CANCELED: LuBan,
  FAILED: LuCircleX,
  SUSPENDED: LuCirclePause,
};

interface Props {
  state: string;
  outcome?: string | null;
  size?: "sm" | "md" | "lg";
}

/** A state with icon, label and color, as Airflow shows the states of tasks. */
export const StateBadge = ({ state, outcome = null, size = "md" }: Props) => {
  const { label, color, meaning } = styleOf(state, outcome);
  const Icon = ICONS[outcome ?? state] ?? LuCircleHelp;
  return (
    <Badge
      borderRadius="full"
      colorPalette={color}
      gap={1.5}
      px={size === "sm" ? 2 : 3}
      py={size === "lg" ? 1 : 0.5}
      size={size}
      title={meaning}
      variant="subtle"
      whiteSpace="nowrap"
    >
      <Icon aria-hidden />
      {label}
    </Badge>
  );
};
