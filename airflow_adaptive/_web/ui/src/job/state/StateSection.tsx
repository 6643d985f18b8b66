import { Box, Flex, Text } from "@chakra-ui/react";
import type { JobDetails } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { Section } from "../../components/layout/Section";
import { readable } from "../../lib/format/reasonText";
import { styleOf } from "../../lib/scheduler/states";
import { DeadlineList } from "./DeadlineList";
import { StateDiagram } from "./StateDiagram";

/** The state of the job, the reason of the last transition, and the deadlines. */
export const StateSection = ({ details }: { details: JobDetails }) => {
  const last = details.last_transition;
  return (
    <Section title="State">
      <Flex gap={6} wrap="wrap">
        <Box flex="3 1 40rem" minWidth={0} overflowX="auto">
          <StateDiagram previous={last?.source ?? null} outcome={details.outcome} state={details.state} />
        </Box>
        <Box flex="1 1 16rem" minWidth={0}>
          <Text fontSize="sm">{styleOf(details.state, details.outcome).meaning}</Text>
          {last !== null && (
            <Text color="fg.muted" fontSize="sm" mt={2} overflowWrap="anywhere">
              Why: {readable(last.reason)} (<Moment at={last.at} />)
            </Text>
          )}
          <DeadlineList details={details} />
        </Box>
      </Flex>
    </Section>
  );
};
