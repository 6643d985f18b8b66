import { Badge, Box, Flex, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { LuCircleCheck } from "react-icons/lu";
import { failuresQuery } from "../api/queries";
import type { Failure, FailureEntry } from "../api/types";
import { Loaded } from "../components/Loaded";
import { Moment } from "../components/Moment";
import { Notice } from "../components/Notice";
import { Section } from "../components/Section";
import { moment } from "../lib/format";
import { styleOf } from "../lib/states";

/** What went wrong, what was decided on it, and what came with it; the newest first. */
export const Failures = ({ job }: { job: string }) => {
  const query = useQuery(failuresQuery(job));
  return (
    <Section title="Failures">
      <Loaded query={query}>
        {({ failures }) =>
          failures.length === 0 ? (
            <Notice icon={LuCircleCheck} title="No failure is remembered" />
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

const Entry = ({ entry }: { entry: FailureEntry }) => (
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
    <What failure={entry.failure} />
    <Text fontSize="sm" mt={2} overflowWrap="anywhere">
      <Text as="span" color="fg.muted">
        Then:{" "}
      </Text>
      {entry.decision}
    </Text>
    {entry.concurrent.length > 0 && (
      <Box mt={2}>
        <Text color="fg.muted" fontSize="xs" fontWeight="bold">
          With it came {entry.concurrent.length} more
        </Text>
        {entry.concurrent.map((failure, index) => (
          <What failure={failure} key={index} isNamed />
        ))}
      </Box>
    )}
  </Box>
);

const What = ({ failure, isNamed = false }: { failure: Failure; isNamed?: boolean }) => (
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

/** A class without its package. */
const shortClass = (name: string): string => name.slice(name.lastIndexOf(".") + 1) || "Failure";
