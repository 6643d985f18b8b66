import { Box, Flex, Text } from "@chakra-ui/react";
import type { JobDetails } from "../api/types";
import { Moment } from "../components/Moment";
import { Section } from "../components/Section";
import { plain } from "../lib/plain";
import { styleOf } from "../lib/states";
import { Clocks } from "./Clocks";
import { StateDiagram } from "./StateDiagram";

/** Where the job stands in its life, why, and which clocks run. */
export const StateSection = ({ details }: { details: JobDetails }) => {
  const last = details.last_transition;
  return (
    <Section title="State">
      <Flex gap={6} wrap="wrap">
        <Box flex="3 1 40rem" minWidth={0} overflowX="auto">
          <StateDiagram came={last?.source ?? null} outcome={details.outcome} state={details.state} />
        </Box>
        <Box flex="1 1 16rem" minWidth={0}>
          <Text fontSize="sm">{styleOf(details.state, details.outcome).meaning}</Text>
          {last !== null && (
            <Text color="fg.muted" fontSize="sm" mt={2} overflowWrap="anywhere">
              Why: {plain(last.reason)} (<Moment at={last.at} />)
            </Text>
          )}
          <Clocks details={details} />
        </Box>
      </Flex>
    </Section>
  );
};
