import { Code, Table, Text } from "@chakra-ui/react";
import { useQuery } from "@tanstack/react-query";
import { deploymentQuery } from "../../api/queries";
import type { Deployment, QueryPreview } from "../../api/types";
import { ColumnHeaders } from "../../components/layout/ColumnHeaders";
import { Section } from "../../components/layout/Section";
import { EFFECTS, planText, queryRows, queryText, STAGES, stateText, valueText } from "./changeText";

const COLUMNS = ["Change", "Before", "After", "Needs"];

/** What deployments change that have not taken effect; nothing without one, or for a user who may not read it. */
export const DeploymentSections = ({ job }: { job: string }) => {
  const { data } = useQuery(deploymentQuery(job));
  return (
    <>
      {data?.pending && <DeploymentSection deployment={data.pending} title="Pending deployment" />}
      {data?.declared && (
        <DeploymentSection
          deployment={data.declared}
          notice={data.notice}
          title="The DAG declares another deployment"
        />
      )}
    </>
  );
};

interface Props {
  deployment: Deployment;
  title: string;
  notice?: string;
}

const DeploymentSection = ({ deployment, title, notice }: Props) => (
  <Section aside={deployment.stage && <Text fontSize="sm">{STAGES[deployment.stage]}</Text>} title={title}>
    <Text fontSize="sm" overflowWrap="anywhere">
      {deployment.reason}
    </Text>
    <Text fontSize="sm" overflowWrap="anywhere">
      {stateText(deployment)}
    </Text>
    {deployment.queries.map((query) => (
      <Text fontSize="sm" key={query.name} overflowWrap="anywhere">
        {queryText(query)}
      </Text>
    ))}
    {deployment.changes.length + deployment.queries.length > 0 && (
      <Table.ScrollArea mt={2}>
        <Table.Root aria-label={title} size="sm">
          <ColumnHeaders names={COLUMNS} />
          <Table.Body>
            {deployment.changes.map((change) => (
              <Table.Row key={change.name}>
                <Table.Cell overflowWrap="anywhere">{change.name}</Table.Cell>
                <Table.Cell overflowWrap="anywhere">{valueText(change.before)}</Table.Cell>
                <Table.Cell overflowWrap="anywhere">{valueText(change.after)}</Table.Cell>
                <Table.Cell whiteSpace="nowrap">{EFFECTS[change.effect]}</Table.Cell>
              </Table.Row>
            ))}
            {deployment.queries.map((query) => (
              <QueryRows key={query.name} query={query} />
            ))}
          </Table.Body>
        </Table.Root>
      </Table.ScrollArea>
    )}
    {deployment.unknown.length > 0 && (
      <Text color="fg.muted" fontSize="sm" mt={2} overflowWrap="anywhere">
        Unknown, may change, too: {deployment.unknown.join(", ")}
      </Text>
    )}
    {notice && (
      <Text color="fg.muted" fontSize="sm" mt={2}>
        {notice}
      </Text>
    )}
  </Section>
);

const QueryRows = ({ query }: { query: QueryPreview }) => (
  <>
    {queryRows(query).map(([name, before, after], index) => (
      <Table.Row key={index}>
        <Table.Cell overflowWrap="anywhere">{name}</Table.Cell>
        <Table.Cell overflowWrap="anywhere">{before}</Table.Cell>
        <Table.Cell overflowWrap="anywhere">{after}</Table.Cell>
        <Table.Cell />
      </Table.Row>
    ))}
    {query.prepared && (
      <Table.Row>
        <Table.Cell overflowWrap="anywhere">plan of {query.name}</Table.Cell>
        <Table.Cell colSpan={3}>
          <Code background="none" padding={0} whiteSpace="pre-wrap">
            {planText(query)}
          </Code>
        </Table.Cell>
      </Table.Row>
    )}
  </>
);
