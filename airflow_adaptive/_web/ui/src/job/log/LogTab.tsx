import { Button, Code, Stack, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { LuRefreshCw } from "react-icons/lu";
import { driverLogQuery } from "../../api/queries";
import { Loaded } from "../../components/feedback/Loaded";
import { Section } from "../../components/layout/Section";

/** The end of the output of the newest driver. The cluster is asked when the tab opens, and when the user asks. */
export const LogTab = ({ job }: { job: string }) => {
  const query = useQuery(driverLogQuery(job));
  const refresh = (
    <Button loading={query.isFetching} onClick={() => void query.refetch()} size="xs" variant="outline">
      <LuRefreshCw aria-hidden />
      Refresh
    </Button>
  );
  return (
    <Loaded query={query}>
      {({ stdout, stderr, submission_id: driver, waits }) => (
        <Stack gap={4}>
          {waits !== "" && (
            <Section title="Executors">
              <Text fontSize="sm">{waits}</Text>
            </Section>
          )}
          <Section aside={refresh} title="Output of the script">
            <Lines label={`Standard output of ${driver}`} lines={stdout} />
          </Section>
          <Section title="Spark's log">
            <Lines label={`Standard error of ${driver}`} lines={stderr} />
          </Section>
        </Stack>
      )}
    </Loaded>
  );
};

const Lines = ({ label, lines }: { label: string; lines: string[] }) => (
  <Code
    aria-label={label}
    as="pre"
    display="block"
    fontSize="xs"
    maxHeight="lg"
    overflow="auto"
    p={2}
    tabIndex={0}
    whiteSpace="pre"
  >
    {lines.length === 0 ? "(nothing)" : lines.join("\n")}
  </Code>
);
