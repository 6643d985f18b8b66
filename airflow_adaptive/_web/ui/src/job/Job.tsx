import { Box, Link, Stack } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link as RouterLink } from "react-router";
import { useLive } from "../api/live";
import { jobQuery } from "../api/queries";
import { Announcer } from "../components/feedback/Announcer";
import { Loaded } from "../components/feedback/Loaded";
import { bounds, total, totalRange } from "../lib/format/parallelism";
import { healthOf } from "../lib/scheduler/health";
import { styleOf } from "../lib/scheduler/states";
import { HealthLine } from "./header/HealthLine";
import { JobHeader } from "./header/JobHeader";
import { JobTabs } from "./JobTabs";
import { JobMessages } from "./header/JobMessages";
import { JobStats } from "./header/JobStats";

interface Props {
  job: string;
  /** Whether the page is the tab of a task instance, which has no link to the list of jobs. */
  isAlone?: boolean;
}

/** The page of one job. */
const Job = ({ job, isAlone = false }: Props) => {
  const connection = useLive(job);
  const query = useQuery(jobQuery(job));
  useEffect(() => {
    document.title = `${job} - Adaptive jobs`;
  }, [job]);
  return (
    <Loaded query={query} exit={isAlone ? null : <ListLink />}>
      {(details) => (
        <Stack gap={4}>
          <Box bg="bg.panel" borderColor="border" borderRadius="md" borderWidth={1} p={4}>
            <JobHeader connection={connection} details={details} isAlone={isAlone} />
            <HealthLine details={details} />
            <JobStats details={details} />
          </Box>
          <JobMessages details={details} />
          <JobTabs details={details} />
          <Announcer
            text={`${job}: ${healthOf(details).label}, ${styleOf(details.state, details.outcome).label}, parallelism ${total(details.parallelism) ?? "none"} of ${bounds(totalRange(details.requirements))}`}
          />
        </Stack>
      )}
    </Loaded>
  );
};

const ListLink = () => (
  <Link asChild colorPalette="blue">
    <RouterLink to="/">All adaptive jobs</RouterLink>
  </Link>
);

export default Job;
