import { Box, Link, Stack } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link as RouterLink } from "react-router";
import { useLive } from "../api/live";
import { jobQuery } from "../api/queries";
import { Announcer } from "../components/Announcer";
import { Loaded } from "../components/Loaded";
import { bounds, total, totalRange } from "../lib/parallelism";
import { styleOf } from "../lib/states";
import { Header } from "./Header";
import { JobTabs } from "./JobTabs";
import { Messages } from "./Messages";
import { Stats } from "./Stats";

interface Props {
  job: string;
  /** On the tab of a task instance there is no way back to a list. */
  isAlone?: boolean;
}

/** All of one job. */
const Job = ({ job, isAlone = false }: Props) => {
  const connection = useLive(job);
  const query = useQuery(jobQuery(job));
  useEffect(() => {
    document.title = `${job} - Adaptive jobs`;
  }, [job]);
  return (
    <Loaded query={query} wayOut={isAlone ? null : <WayBack />}>
      {(details) => (
        <Stack gap={4}>
          <Box bg="bg.panel" borderColor="border" borderRadius="md" borderWidth={1} p={4}>
            <Header connection={connection} details={details} isAlone={isAlone} />
            <Stats details={details} />
          </Box>
          <Messages details={details} />
          <JobTabs details={details} />
          <Announcer
            text={`${job}: ${styleOf(details.state, details.outcome).label}, parallelism ${total(details.parallelism) ?? "none"} of ${bounds(totalRange(details.requirements))}`}
          />
        </Stack>
      )}
    </Loaded>
  );
};

const WayBack = () => (
  <Link asChild colorPalette="blue">
    <RouterLink to="/">All adaptive jobs</RouterLink>
  </Link>
);

export default Job;
