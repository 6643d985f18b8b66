import { Box, Flex, Text } from "@chakra-ui/react";
import type { JobDetails } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { Section } from "../../components/layout/Section";
import { readable } from "../../lib/format/reasonText";
import { styleOf } from "../../lib/scheduler/states";
import { DeadlineList } from "./DeadlineList";
import { StateDiagram } from "./StateDiagram";

/** The state of the job, the reason of the last transition, the deadlines, and the diagram of all states. */
export const StateSection = ({ details }: { details: JobDetails }) => {
  const last = details.last_transition;
  return (
    <Section title="State">
      <Flex columnGap={10} rowGap={2} wrap="wrap">
        <Box flex="1 1 20rem" minWidth={0}>
          <Text fontSize="sm">{styleOf(details.state, details.outcome).meaning}</Text>
          {last !== null && (
            <Text color="fg.muted" fontSize="sm" mt={2} overflowWrap="anywhere">
              Last transition: {readable(last.reason)} (<Moment at={last.at} />)
            </Text>
          )}
        </Box>
        <Box flex="1 1 16rem" minWidth={0}>
          <DeadlineList details={details} />
        </Box>
      </Flex>
      <Box asChild mt={3}>
        <details>
          <Box as="summary" color="fg.muted" cursor="pointer" fontSize="xs">
            State diagram
          </Box>
          <Box mt={2} overflowX="auto">
            <StateDiagram previous={last?.source ?? null} outcome={details.outcome} state={details.state} />
          </Box>
        </details>
      </Box>
    </Section>
  );
};
