import { Alert, Box, Code, Flex, Heading, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { LuLayers, LuSearchX } from "react-icons/lu";
import { useSearchParams } from "react-router";
import { type JobsFilter, jobsQuery } from "../api/queries";
import { Loaded } from "../components/feedback/Loaded";
import { Placeholder } from "../components/feedback/Placeholder";
import { HelpLink } from "../components/values/HelpLink";
import { exact } from "../lib/format/format";
import { Filters } from "./Filters";
import { JobsTable } from "./JobsTable";
import { Pager } from "./Pager";

const PAGE_SIZES = [25, 50, 100];

/** The filter in the address. Links contain the filter, and the filter survives navigation. */
const filterOf = (search: URLSearchParams): JobsFilter => {
  const limit = Number(search.get("limit"));
  const offset = Number(search.get("offset"));
  return {
    name: search.get("name") ?? "",
    state: search.get("state") ?? "",
    sort: search.get("sort") ?? "",
    limit: PAGE_SIZES.includes(limit) ? limit : 50,
    offset: Number.isSafeInteger(offset) && offset > 0 ? offset : 0,
  };
};

/** All adaptive jobs that the user may read. */
export const JobsPage = () => {
  const [search, setSearch] = useSearchParams();
  const filter = filterOf(search);
  const query = useQuery(jobsQuery(filter));
  const change = (changed: Partial<JobsFilter>) => setSearch(searchOf({ ...filter, offset: 0, ...changed }));
  useEffect(() => {
    document.title = "Adaptive jobs";
  }, []);
  return (
    <Box>
      <Flex align="baseline" gap={3} mb={4}>
        <Heading as="h1" size="xl">
          Adaptive jobs
        </Heading>
        <Text color="fg.muted" fontSize="sm" role="status">
          {query.data === undefined ? "" : `${exact(query.data.total_entries)} found`}
        </Text>
      </Flex>
      <Filters filter={filter} onChange={change} />
      <Loaded lines={10} query={query}>
        {({ jobs, total_entries, problem }) => (
          <>
            {problem !== null && <Problem>{problem}</Problem>}
            {jobs.length === 0 ? (
              <NoJobs isFiltered={filter.name !== "" || filter.state !== "" || filter.offset > 0} />
            ) : (
              <>
                <JobsTable jobs={jobs} />
                <Pager filter={filter} onChange={change} sizes={PAGE_SIZES} total={total_entries} />
              </>
            )}
          </>
        )}
      </Loaded>
    </Box>
  );
};

const searchOf = (filter: JobsFilter): Record<string, string> => ({
  ...(filter.name === "" ? {} : { name: filter.name }),
  ...(filter.state === "" ? {} : { state: filter.state }),
  ...(filter.sort === "" ? {} : { sort: filter.sort }),
  ...(filter.limit === 50 ? {} : { limit: String(filter.limit) }),
  ...(filter.offset === 0 ? {} : { offset: String(filter.offset) }),
});

const Problem = ({ children }: { children: string }) => (
  <Alert.Root mb={4} size="sm" status="warning">
    <Alert.Indicator />
    <Alert.Content minWidth={0}>
      <Alert.Title>The server cannot read the state of jobs</Alert.Title>
      <Alert.Description>{children}</Alert.Description>
    </Alert.Content>
  </Alert.Root>
);

const EXAMPLE = `@task.adaptive_spark(
    job="departures",
    job_directory="file:///shared/jobs",
    parallelism=(1, 8),
    rescale_policy=LoadPolicy(),
)
def departures(spark, parallelism):
    flights = spark.readStream.schema("carrier STRING").json("/data/flights")
    return flights.writeStream.option("path", "/data/departures")`;

const NoJobs = ({ isFiltered }: { isFiltered: boolean }) =>
  isFiltered ? (
    <Placeholder icon={LuSearchX} title="No job matches">
      Change or clear the filter.
    </Placeholder>
  ) : (
    <Placeholder icon={LuLayers} title="There are no adaptive jobs yet">
      <Text>
        A job appears after the first run of its task, to users who may read its DAG. This DAG declares one:
      </Text>
      <Code mt={3} overflowX="auto" p={3} textAlign="start" whiteSpace="pre" width="full">
        {EXAMPLE}
      </Code>
      <HelpLink label="Your first job" page="start/first-job" />
    </Placeholder>
  );
