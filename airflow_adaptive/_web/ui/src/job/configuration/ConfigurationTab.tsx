import { Stack, Table, Text } from "@chakra-ui/react";
import type { JobDetails, Urls } from "../../api/types";
import { Address } from "../../components/values/Address";
import { Section } from "../../components/layout/Section";
import { moment } from "../../lib/format/format";
import { optionText } from "./optionText";

const PAGES: [keyof Urls, string][] = [
  ["master", "Spark master"],
  ["driver", "Driver (Spark UI)"],
  ["executors", "Executors and their logs"],
  ["stdout", "Driver's standard output"],
  ["stderr", "Driver's log"],
];

/** Links to Spark's web pages, and the options of the job and its scheduler. */
export const ConfigurationTab = ({ details }: { details: JobDetails }) => {
  const pages = PAGES.filter(([name]) => details.urls[name] !== null);
  const options = Object.entries(details.options).sort(([one], [other]) => one.localeCompare(other));
  return (
    <Stack gap={4}>
      <Section title="Spark web pages">
        <Rows
          label="Spark web pages"
          rows={pages.map(([name, label]) => [label, <Address key={name} url={details.urls[name] ?? ""} />])}
        />
      </Section>
      <Section title="Job">
        <Rows
          label="Job"
          rows={[
            ["Type", details.job_type.toLowerCase()],
            ["Mode", details.reactive ? "reactive: uses all available slots" : "declared requirements"],
            ["DAGs of the job", details.dag_ids.join(", ")],
            ["DAG run", details.task?.run_id ?? "–"],
            ["Attempt", details.attempt ?? "–"],
            ...Object.entries(details.requesters).map(([key, { by, at, via, until }]): [string, string] => [
              `Last request: ${key}`,
              `by ${by} (${via}), ${moment(at)}${until ? `, until ${moment(until)}` : ""}`,
            ]),
          ]}
        />
      </Section>
      <Section title="Scheduler options">
        <Rows
          label="Scheduler options"
          rows={options.map(([name, value]) => [name, optionText(name, value)])}
        />
      </Section>
    </Stack>
  );
};

const Rows = ({ label, rows }: { label: string; rows: [string, React.ReactNode][] }) =>
  rows.length === 0 ? (
    <Text color="fg.muted" fontSize="sm">
      The job has not published this information yet.
    </Text>
  ) : (
    <Table.Root aria-label={label} size="sm">
      <Table.Body>
        {rows.map(([name, value]) => (
          <Table.Row key={name}>
            <Table.ColumnHeader
              fontWeight="medium"
              scope="row"
              verticalAlign="top"
              width={{ base: "40%", md: "20rem" }}
            >
              <Text as="span" overflowWrap="anywhere">
                {name}
              </Text>
            </Table.ColumnHeader>
            <Table.Cell overflowWrap="anywhere" verticalAlign="top">
              {value}
            </Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  );
