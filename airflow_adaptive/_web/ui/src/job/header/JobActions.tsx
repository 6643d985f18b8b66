import { Button } from "@chakra-ui/react";
import { useState } from "react";
import type { IconType } from "react-icons";
import { LuBan, LuPause, LuPlay, LuSlidersHorizontal } from "react-icons/lu";
import type { JobDetails } from "../../api/types";
import { type Action, refusal } from "../../lib/scheduler/permissions";
import { RequirementsDialog } from "../requirements/RequirementsDialog";
import { type StateAction, DesiredStateDialog } from "./DesiredStateDialog";

/** The actions on a job. A disabled action shows the reason. */
export const JobActions = ({ details }: { details: JobDetails }) => {
  const [open, setOpen] = useState<Action | null>(null);
  const close = () => setOpen(null);
  const button = (action: Action, label: string, icon: IconType, color = "steel") => (
    <ActionButton
      color={color}
      icon={icon}
      label={label}
      onClick={() => setOpen(action)}
      refusedBecause={refusal(action, details)}
    />
  );
  const isResumable = refusal("resume", details) === null;
  return (
    <>
      {button("requirements", "Change parallelism", LuSlidersHorizontal)}
      {isResumable ? button("resume", "Resume", LuPlay) : button("suspend", "Suspend", LuPause)}
      {button("cancel", "Cancel job", LuBan, "red")}
      {open === "requirements" && <RequirementsDialog details={details} onClose={close} />}
      {open !== null && open !== "requirements" && (
        <DesiredStateDialog details={details} onClose={close} action={open satisfies StateAction} />
      )}
    </>
  );
};

interface ActionButtonProps {
  label: string;
  icon: IconType;
  color: string;
  refusedBecause: string | null;
  onClick: () => void;
}

const ActionButton = ({ label, icon: Icon, color, refusedBecause, onClick }: ActionButtonProps) => (
  <Button
    aria-disabled={refusedBecause !== null}
    colorPalette={color}
    onClick={refusedBecause === null ? onClick : undefined}
    opacity={refusedBecause === null ? 1 : 0.5}
    size="sm"
    title={refusedBecause ?? undefined}
    variant="outline"
    {...(refusedBecause === null ? {} : { "aria-description": refusedBecause, cursor: "not-allowed" })}
  >
    <Icon aria-hidden />
    {label}
  </Button>
);
