import { Breadcrumb, Flex, Heading, HStack, Text } from "@chakra-ui/react";
import { Link } from "react-router";
import type { Connection } from "../../api/live";
import type { JobDetails } from "../../api/types";
import { LiveBadge } from "../../components/feedback/LiveBadge";
import { StateBadge } from "../../components/values/StateBadge";
import { duration, moment, secondsBetween } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { JobActions } from "./JobActions";

interface Props {
  details: JobDetails;
  connection: Connection;
  isAlone: boolean;
}

/** Name and state of the job, time in the state, state of the connection while the job runs, and actions. */
export const JobHeader = ({ details, connection, isAlone }: Props) => {
  const now = useNow();
  const inState = secondsBetween(details.since, now);
  const isOver = details.state === "Finished";
  return (
    <Flex align="start" gap={4} justify="space-between" wrap="wrap">
      <Flex direction="column" flex="1 1 20rem" gap={1} minWidth={0}>
        {!isAlone && <Crumbs job={details.job} />}
        <Flex align="center" columnGap={3} rowGap={2} wrap="wrap">
          <Heading as="h1" lineClamp={3} overflowWrap="anywhere" size="xl" title={details.job}>
            {details.job}
          </Heading>
          <StateBadge outcome={details.outcome} size="lg" state={details.state} />
          {inState !== null && (
            <Text color="fg.muted" fontSize="sm" title={`since ${moment(details.since)}`}>
              for {duration(inState)}
            </Text>
          )}
          {!isOver && (
            <LiveBadge connection={connection} staleFor={secondsBetween(details.published_at, now)} />
          )}
        </Flex>
      </Flex>
      <HStack wrap="wrap">
        <JobActions details={details} />
      </HStack>
    </Flex>
  );
};

const Crumbs = ({ job }: { job: string }) => (
  <Breadcrumb.Root size="sm">
    <Breadcrumb.List>
      <Breadcrumb.Item>
        <Breadcrumb.Link asChild>
          <Link to="/">Adaptive jobs</Link>
        </Breadcrumb.Link>
      </Breadcrumb.Item>
      <Breadcrumb.Separator />
      <Breadcrumb.Item minWidth={0}>
        <Breadcrumb.CurrentLink maxWidth="xs" truncate>
          {job}
        </Breadcrumb.CurrentLink>
      </Breadcrumb.Item>
    </Breadcrumb.List>
  </Breadcrumb.Root>
);
