import { Alert, Stack } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { JobDetails, RequestRecord } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { duration, time } from "../../lib/format/format";
import { bounds } from "../../lib/format/parallelism";

const IN_PROGRESS: Record<string, string> = {
  suspended: "The job is being suspended",
  canceled: "The job is being canceled",
};

const alertTitle = (expiresAt: string | null): string =>
  expiresAt === null
    ? "The lag exceeds lag_alert_threshold"
    : `The brokers delete unread rows, from ${time(expiresAt)}`;

/** Alerts at the top of the page of a job. */
export const JobMessages = ({ details }: { details: JobDetails }) => {
  const inProgress = details.state === "Finished" ? undefined : IN_PROGRESS[details.desired_state ?? ""];
  const pending = Object.entries(details.pending_requirements ?? {});
  return (
    <Stack _empty={{ display: "none" }} gap={2}>
      <LagMessages details={details} />
      {details.problem !== null && (
        <Message status="warning" title="The server cannot read the state of this job">
          {details.problem}
        </Message>
      )}
      {details.abandoned && (
        <Message status="warning" title="No control loop controls the driver of this job">
          The task has ended or was removed, and the end of the job is not known. Cancel the job, or run its
          DAG again. The next control loop in the same job directory stops a driver that still runs.
        </Message>
      )}
      {details.state === "unknown" && details.problem === null && (
        <Message status="info" title="This job has not published anything yet">
          The job publishes its state when its task runs with this version of airflow-adaptive.
        </Message>
      )}
      {inProgress !== undefined && (
        <Message status="info" title={inProgress}>
          <RequestedBy requester={details.requesters["desired_state"]} /> The job stops at its next batch
          boundary.
        </Message>
      )}
      {pending.length > 0 && (
        <Message status="info" title="New bounds become active soon">
          {pending.map(([name, range]) => `${name}: ${bounds(range)}`).join(", ")}
        </Message>
      )}
    </Stack>
  );
};

/** Messages about the sources of a job. */
const LagMessages = ({ details }: { details: JobDetails }) => (
  <>
    {details.lag_alert !== null && (
      <Message status="warning" title={alertTitle(details.lag_alert.expires_at)}>
        The oldest unread row was {duration(details.lag_alert.lag_s)} old,{" "}
        <Moment at={details.lag_alert.since} />.
      </Message>
    )}
    {details.source_problem !== null && (
      <Message status="warning" title="The driver cannot read a source">
        {details.source_problem}
      </Message>
    )}
    {details.lag_unknown_since !== null && (
      <Message status="info" title={`Lag unknown since ${time(details.lag_unknown_since)}`}>
        No driver reports the lag, files arrive while a batch runs, or a source does not report its backlog.
        With <code>kafka_conn_id</code>, the triggerer reads the lag of topics from the brokers if they
        answer.
      </Message>
    )}
  </>
);

const RequestedBy = ({ requester }: { requester: RequestRecord | undefined }) =>
  requester === undefined ? null : (
    <>
      Requested by {requester.by} ({requester.via}), <Moment at={requester.at} />.
    </>
  );

interface MessageProps {
  status: "info" | "warning";
  title: string;
  children: ReactNode;
}

const Message = ({ status, title, children }: MessageProps) => (
  <Alert.Root size="sm" status={status}>
    <Alert.Indicator />
    <Alert.Content minWidth={0}>
      <Alert.Title>{title}</Alert.Title>
      <Alert.Description as="div" overflowWrap="anywhere">
        {children}
      </Alert.Description>
    </Alert.Content>
  </Alert.Root>
);
