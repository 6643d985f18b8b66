import { Badge, Box, Flex, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { LuCircleCheck } from "react-icons/lu";
import { failuresQuery } from "../../api/queries";
import type { Failure, FailureRecord } from "../../api/types";
import { Loaded } from "../../components/feedback/Loaded";
import { Moment } from "../../components/values/Moment";
import { Placeholder } from "../../components/feedback/Placeholder";
import { Section } from "../../components/layout/Section";
import { moment } from "../../lib/format/format";
import { styleOf } from "../../lib/scheduler/states";

/** The failures with their causes, the decisions of the scheduler and concurrent failures, newest first. */
export const FailuresTab = ({ job }: { job: string }) => {
  const query = useQuery(failuresQuery(job));
  return (
    <Section title="Failures">
      <Loaded query={query}>
        {({ failures }) =>
          failures.length === 0 ? (
            <Placeholder icon={LuCircleCheck} title="No failures" />
          ) : (
            <Stack as="ol" gap={3} listStyleType="none">
              {failures.map((entry, index) => (
                <Entry entry={entry} key={`${entry.at}-${index}`} />
              ))}
            </Stack>
          )
        }
      </Loaded>
    </Section>
  );
};

const Entry = ({ entry }: { entry: FailureRecord }) => (
  <Box
    as="li"
    borderColor="border"
    borderLeftColor="red.solid"
    borderLeftWidth={3}
    borderRadius="sm"
    borderWidth={1}
    minWidth={0}
    p={3}
  >
    <Flex align="baseline" gap={3} justify="space-between" wrap="wrap">
      <Text fontWeight="semibold" overflowWrap="anywhere">
        {shortClass(entry.failure.error_class)}
      </Text>
      <Text color="fg.muted" fontSize="xs">
        {moment(entry.at)} (<Moment at={entry.at} />) in {styleOf(entry.state).label}
      </Text>
    </Flex>
    <FailureDetails failure={entry.failure} />
    <Text fontSize="sm" mt={2} overflowWrap="anywhere">
      <Text as="span" color="fg.muted">
        Decision:{" "}
      </Text>
      {entry.decision}
    </Text>
    {entry.concurrent.length > 0 && (
      <Box mt={2}>
        <Text color="fg.muted" fontSize="xs" fontWeight="bold">
          Concurrent failures: {entry.concurrent.length}
        </Text>
        {entry.concurrent.map((failure, index) => (
          <FailureDetails failure={failure} key={index} isNamed />
        ))}
      </Box>
    )}
  </Box>
);

const FailureDetails = ({ failure, isNamed = false }: { failure: Failure; isNamed?: boolean }) => (
  <Box mt={1}>
    <Text fontFamily="mono" fontSize="xs" overflowWrap="anywhere" whiteSpace="pre-wrap">
      {isNamed ? `${shortClass(failure.error_class)}: ` : ""}
      {failure.message || "(no message)"}
    </Text>
    {failure.causes.length > 0 && (
      <Flex align="center" gap={1.5} mt={1.5} wrap="wrap">
        <Text color="fg.muted" fontSize="xs">
          Caused by
        </Text>
        {failure.causes.map((cause, index) => (
          <Badge
            colorPalette={index === failure.causes.length - 1 ? "red" : "gray"}
            key={cause}
            maxWidth="full"
            title={cause}
            whiteSpace="normal"
          >
            <Text as="span" overflowWrap="anywhere">
              {cause}
            </Text>
          </Badge>
        ))}
      </Flex>
    )}
  </Box>
);

/** The name of a class without its package. */
const shortClass = (name: string): string => name.slice(name.lastIndexOf(".") + 1) || "Failure";
