import { Button } from "@chakra-ui/react";
import { useState } from "react";
import type { IconType } from "react-icons";
import { LuBan, LuPause, LuPlay, LuSlidersHorizontal } from "react-icons/lu";
import type { JobDetails } from "../api/types";
import { type Action, refusal } from "../lib/permissions";
import { RequirementsDialog } from "./RequirementsDialog";
import { type Wish, WishDialog } from "./WishDialog";

/** What may be done to a job; what may not says why. */
export const Actions = ({ details }: { details: JobDetails }) => {
  const [open, setOpen] = useState<Action | null>(null);
  const close = () => setOpen(null);
  const button = (action: Action, label: string, icon: IconType, color = "steel") => (
    <ActionButton
      color={color}
      icon={icon}
      label={label}
      onClick={() => setOpen(action)}
      refused={refusal(action, details)}
    />
  );
  const isResumable = refusal("resume", details) === null;
  return (
    <>
      {button("requirements", "Requirements", LuSlidersHorizontal)}
      {isResumable ? button("resume", "Resume", LuPlay) : button("suspend", "Suspend", LuPause)}
      {button("cancel", "Cancel job", LuBan, "red")}
      {open === "requirements" && <RequirementsDialog details={details} onClose={close} />}
      {open !== null && open !== "requirements" && (
        <WishDialog details={details} onClose={close} desired_state={open satisfies Wish} />
      )}
    </>
  );
};

interface ActionButtonProps {
  label: string;
  icon: IconType;
  color: string;
  refused: string | null;
  onClick: () => void;
}

const ActionButton = ({ label, icon: Icon, color, refused, onClick }: ActionButtonProps) => (
  <Button
    aria-disabled={refused !== null}
    colorPalette={color}
    onClick={refused === null ? onClick : undefined}
    opacity={refused === null ? 1 : 0.5}
    size="sm"
    title={refused ?? undefined}
    variant="outline"
    {...(refused === null ? {} : { "aria-description": refused, cursor: "not-allowed" })}
  >
    <Icon aria-hidden />
    {label}
  </Button>
);
