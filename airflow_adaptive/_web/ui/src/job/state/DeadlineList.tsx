import { Box, Flex, Heading, Stack, Text } from "@chakra-ui/react";
import { LuTimer } from "react-icons/lu";
import type { JobDetails } from "../../api/types";
import { countdowns } from "./countdowns";
import { duration, moment } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { phaseText } from "../../lib/scheduler/states";

/** The deadlines of the scheduler, with countdowns. */
export const DeadlineList = ({ details }: { details: JobDetails }) => {
  const now = useNow();
  const deadlines = countdowns(details, now);
  const { backoff, waiting } = details;
  return (
    <Box>
      <Heading as="h3" color="fg.muted" fontSize="xs" fontWeight="bold">
        Deadlines
      </Heading>
      <Stack as="ul" gap={2} listStyleType="none" mt={2}>
        {deadlines.map(({ id, text, hint, due }) => (
          <Flex align="baseline" as="li" fontSize="sm" gap={2} justify="space-between" key={id} title={hint}>
            <Flex align="center" gap={2} minWidth={0}>
              <LuTimer aria-hidden />
              {text}
            </Flex>
            <Text fontVariantNumeric="tabular-nums" fontWeight="bold" title={moment(due)} whiteSpace="nowrap">
              {remaining(due, now)}
            </Text>
          </Flex>
        ))}
        {backoff !== null && backoff.ends === null && (
          <Text as="li" fontSize="sm">
            Backoff of {duration(backoff.seconds)}, after the driver has stopped
          </Text>
        )}
        {deadlines.length === 0 && backoff === null && (
          <Text as="li" color="fg.muted" fontSize="sm">
            None{waiting === null ? "" : `: ${phaseText(waiting.phase)}`}.
          </Text>
        )}
      </Stack>
    </Box>
  );
};

const remaining = (due: string, now: number): string => {
  const seconds = (Date.parse(due) - now) / 1_000;
  return seconds <= 0 ? "due now" : `in ${duration(Math.ceil(seconds))}`;
};
