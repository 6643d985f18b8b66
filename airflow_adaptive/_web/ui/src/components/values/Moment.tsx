import { Text } from "@chakra-ui/react";
import { ago, moment } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";

/** How long ago something was; the exact time on hover and for screen readers. */
export const Moment = ({ at }: { at: string | number | null }) => {
  const now = useNow();
  if (at === null) return <>–</>;
  const iso = new Date(at).toISOString();
  return (
    <Text aria-label={moment(at)} asChild title={moment(at)} whiteSpace="nowrap">
      <time dateTime={iso}>{ago(at, now)}</time>
    </Text>
  );
};
