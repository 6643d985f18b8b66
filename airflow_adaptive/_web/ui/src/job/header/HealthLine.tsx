import { Badge, Box, Flex, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { jobsQuery, timelineQuery } from "../../api/queries";
import type { JobDetails } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { duration } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { readable } from "../../lib/format/reasonText";
import { healthOf, holdersOf } from "../../lib/scheduler/health";
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
          <Holders details={details} />
          <Next details={details} />
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

const MOST_SLOTS = { name: "", state: "", sort: "Parallelism", limit: 25, offset: 0 };

/** The jobs that hold the slots that a job waits for. */
const Holders = ({ details }: { details: JobDetails }) => {
  const { data } = useQuery({ ...jobsQuery(MOST_SLOTS), enabled: details.health === "waits" });
  const holders = details.health === "waits" ? holdersOf(details, data?.jobs ?? []) : "";
  return holders === "" ? null : <>; held by {holders}</>;
};

/** When a job that lacks slots fails, or when a job restarts after a failure. */
const Next = ({ details }: { details: JobDetails }) => {
  const now = useNow();
  const { backoff, deadlines, health } = details;
  const timeTo = (due: string) => duration(Math.max(0, (Date.parse(due) - now) / 1_000));
  const failure = deadlines.find(({ name }) => name === "RESOURCE_WAIT")?.due;
  if (health === "waits" && failure !== undefined) return <>; fails in {timeTo(failure)}</>;
  if (health !== "restarts" || backoff === null) return null;
  const next = backoff.ends === null ? "once the driver has stopped" : `in ${timeTo(backoff.ends)}`;
  return <>; next try {next}</>;
};
