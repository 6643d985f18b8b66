import { Button, Flex, Link, Text } from "@chakra-ui/react";
import { LuCheck, LuCopy, LuExternalLink } from "react-icons/lu";
import { IN_FRAME } from "../../lib/airflow/base";
import { isWeb } from "../../lib/airflow/webAddress";
import { useCopy } from "./useCopy";

/** An address of another site: a link, or a text to copy inside Airflow's frame, which cannot open windows. */
export const Address = ({ label, url }: { label: string; url: string }) => {
  if (!isWeb(url)) return <Text overflowWrap="anywhere">{url}</Text>;
  if (IN_FRAME) return <Copyable text={url} name={label} />;
  return (
    <Link colorPalette="blue" href={url} overflowWrap="anywhere" rel="noopener noreferrer" target="_blank">
      {url}
      <LuExternalLink aria-label="opens a new window" />
    </Link>
  );
};

const Copyable = ({ text, name }: { text: string; name: string }) => {
  const [copied, copy] = useCopy(text);
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
