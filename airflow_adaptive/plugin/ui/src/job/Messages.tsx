import { Alert, Stack } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { JobDetails } from "../api/types";
import { Moment } from "../components/Moment";
import { bounds } from "../lib/parallelism";

const WISHES: Record<string, string> = {
  suspended: "Suspending was asked for",
  canceled: "Canceling was asked for",
};

/** What everybody who opens the page should know first. */
export const Messages = ({ details }: { details: JobDetails }) => {
  const desired_state = details.state === "Finished" ? undefined : WISHES[details.desired_state ?? ""];
  const pending = Object.entries(details.pending_requirements ?? {});
  return (
    <Stack _empty={{ display: "none" }} gap={2}>
      {details.cause !== null && (
        <Message status="error" title="Root cause">
          {details.cause}
        </Message>
      )}
      {details.state === "unknown" && (
        <Message status="info" title="This job has shown nothing yet">
          It does as soon as its task runs, or has run with this version of airflow-adaptive.
        </Message>
      )}
      {desired_state !== undefined && (
        <Message status="info" title={desired_state}>
          <Asker asked={details.asked["desired_state"]} /> The job follows at its next batch boundary.
        </Message>
      )}
      {pending.length > 0 && (
        <Message status="info" title="New requirements are about to come into force">
          {pending.map(([name, range]) => `${name}: ${bounds(range)}`).join(", ")}
        </Message>
      )}
    </Stack>
  );
};

const Asker = ({ asked }: { asked: { by: string; at: string; via: string } | undefined }) =>
  asked === undefined ? null : (
    <>
      By {asked.by} ({asked.via}), <Moment at={asked.at} />.
    </>
  );

interface MessageProps {
  status: "error" | "info" | "warning";
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
