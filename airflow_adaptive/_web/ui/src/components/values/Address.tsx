import { Link, Text } from "@chakra-ui/react";
import { LuExternalLink } from "react-icons/lu";
import { outside } from "../../lib/airflow/base";
import { isWeb } from "../../lib/airflow/webAddress";

/** An address of another page: a link, with a text in place of the address if there is one. */
export const Address = ({ url, text = url }: { url: string; text?: string }) =>
  isWeb(url) ? (
    <Link colorPalette="blue" overflowWrap="anywhere" {...outside(url)}>
      {text}
      <LuExternalLink aria-label="opens a new window" />
    </Link>
  ) : (
    <Text overflowWrap="anywhere">{text}</Text>
  );
