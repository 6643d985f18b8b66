import { IconButton, Link } from "@chakra-ui/react";
import { LuCheck, LuCircleHelp } from "react-icons/lu";
import { IN_FRAME } from "../../lib/airflow/base";
import { docs } from "../../lib/airflow/docs";
import { useCopy } from "./useCopy";

/** A link to a page of the documentation. Inside Airflow's frame, which cannot open windows, a click copies the address. */
export const HelpLink = ({ page, label }: { page: string; label: string }) => {
  const url = docs(page);
  const [copied, copy] = useCopy(url);
  if (!IN_FRAME)
    return (
      <Link
        aria-label={label}
        colorPalette="blue"
        href={url}
        rel="noopener noreferrer"
        target="_blank"
        title={label}
      >
        <LuCircleHelp aria-hidden />
      </Link>
    );
  return (
    <IconButton
      aria-label={copied ? "The address is copied" : `${label}: copy the address`}
      onClick={copy}
      size="2xs"
      title={copied ? "The address is copied" : url}
      variant="ghost"
    >
      {copied ? <LuCheck aria-hidden /> : <LuCircleHelp aria-hidden />}
    </IconButton>
  );
};
