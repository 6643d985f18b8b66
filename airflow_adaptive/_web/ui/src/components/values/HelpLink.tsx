import { Link } from "@chakra-ui/react";
import { LuCircleHelp } from "react-icons/lu";
import { outside } from "../../lib/airflow/base";
import { docs } from "../../lib/airflow/docs";

/** A link to a page of the documentation. */
export const HelpLink = ({ page, label }: { page: string; label: string }) => (
  <Link aria-label={label} colorPalette="blue" title={label} {...outside(docs(page))}>
    <LuCircleHelp aria-hidden />
  </Link>
);
