import { Button, Flex, Link, Text } from "@chakra-ui/react";
import { LuCheck, LuCopy, LuExternalLink } from "react-icons/lu";
import { IN_FRAME } from "../../lib/airflow/base";
import { isWeb } from "../../lib/airflow/webAddress";
import { useCopy } from "./useCopy";

interface Props {
  label: string;
  url: string;
  /** Takes the place of the address. */
  text?: string;
}

/** An address of another page: a link, or a text with an address to copy inside Airflow's frame, which cannot open windows. */
export const Address = ({ label, url, text = url }: Props) => {
  if (!isWeb(url)) return <Text overflowWrap="anywhere">{text}</Text>;
  if (IN_FRAME) return <Copyable name={label} text={text} url={url} />;
  return (
    <Link colorPalette="blue" href={url} overflowWrap="anywhere" rel="noopener noreferrer" target="_blank">
      {text}
      <LuExternalLink aria-label="opens a new window" />
    </Link>
  );
};

const Copyable = ({ name, text, url }: { name: string; text: string; url: string }) => {
  const [copied, copy] = useCopy(url);
  return (
    <Flex align="center" gap={2} minWidth={0}>
      <Text fontFamily="mono" fontSize="xs" overflowWrap="anywhere" userSelect="all">
        {text}
      </Text>
      <Button aria-label={`Copy the address: ${name}`} onClick={copy} size="2xs" variant="ghost">
        {copied ? <LuCheck aria-hidden /> : <LuCopy aria-hidden />}
        {copied ? "Copied" : "Copy"}
      </Button>
    </Flex>
  );
};
