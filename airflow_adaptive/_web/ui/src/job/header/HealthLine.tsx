import { Badge, Box, Flex, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { timelineQuery } from "../../api/queries";
import type { JobDetails } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { duration } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { readable } from "../../lib/format/reasonText";
import { healthOf } from "../../lib/scheduler/health";
import { newest } from "../../lib/scheduler/newest";

/** The health of the job in one sentence, and the newest decision of the scheduler. */
export const HealthLine = ({ details }: { details: JobDetails }) => {
  const { color, label, text } = healthOf(details);
  const timeline = useQuery(timelineQuery(details.job)).data;
  const why = newest(timeline) ?? details.last_transition;
  return (
    <Box aria-label="Health" as="section" mt={3}>
      <Flex align="baseline" gap={2} wrap="wrap">
        <Badge colorPalette={color} size="lg" variant="solid">
          {label}
        </Badge>
        <Text fontSize="md" overflowWrap="anywhere">
          {text}
          <Failure details={details} />
        </Text>
      </Flex>
      {why !== null && (
        <Text color="fg.muted" fontSize="sm" mt={1} overflowWrap="anywhere">
          Why: {readable(why.reason)} (<Moment at={why.at} />)
        </Text>
      )}
    </Box>
  );
};

/** When a job that waits for slots fails. */
const Failure = ({ details: { deadlines, state } }: { details: JobDetails }) => {
  const now = useNow();
  const due = deadlines.find(({ name }) => name === "RESOURCE_WAIT")?.due;
  if (state !== "WaitingForResources" || due === undefined) return null;
  return <>; fails in {duration(Math.max(0, (Date.parse(due) - now) / 1_000))}</>;
};
