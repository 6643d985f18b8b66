import { Alert, Badge, Box, Button, Flex, Grid, Heading, Stack, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ReactNode } from "react";
import type { PublishedAdvice, RequirementsSource, JobDetails, PublishedPolicy } from "../../api/types";
import { Moment } from "../../components/values/Moment";
import { Section } from "../../components/layout/Section";
import { duration, moment } from "../../lib/format/format";
import { useNow } from "../../lib/format/now";
import { ranges } from "../../lib/format/parallelism";
import { refusal } from "../../lib/scheduler/permissions";
import { readable } from "../../lib/format/reasonText";
import {
  validity,
  isOverride,
  policyText,
  sourceText,
  type PolicyStatus,
  policyStatus,
} from "../../lib/scheduler/requirementsSource";
import { ClearOverrideDialog } from "./ClearOverrideDialog";

const STATUS_TEXTS: Record<PolicyStatus, [string, string, string]> = {
  active: ["Active", "green", "The policy set the active bounds."],
  inactive: ["Inactive", "gray", "Another source set the active bounds."],
  "dry run": ["Dry run", "orange", "The policy reports its advice and changes nothing."],
};

/** The active bounds and their source, and the advice of the rescale policy. Empty until the job publishes either. */
export const BoundsSection = ({ details }: { details: JobDetails }) => {
  const { requirements_source: by, policy } = details;
  if (by === null && policy === null) return null;
  return (
    <Section title="Bounds">
      <Grid gap={6} gridTemplateColumns={{ base: "minmax(0, 1fr)", md: "repeat(2, minmax(0, 1fr))" }}>
        {by && <ActiveBounds by={by} details={details} />}
        {policy && <PolicyPart policy={policy} />}
      </Grid>
    </Section>
  );
};

const ActiveBounds = ({ by, details }: { by: RequirementsSource; details: JobDetails }) => {
  const until = validity(by);
  return (
    <Part title="Active bounds">
      <Text fontWeight="semibold" overflowWrap="anywhere">
        {ranges(details.requirements)}
      </Text>
      <Text overflowWrap="anywhere">
        Set by <b>{sourceText(by)}</b>
        {by.since !== null && (
          <>
            , <Moment at={by.since} />
          </>
        )}
        {until !== null && <>, {until}</>}
      </Text>
      {
        by.origin !== "POLICY" && (
          <Reason text={by.reason} />
        ) /* the policy part shows the reason of a policy */
      }
      {isOverride(by) && <ClearOverride by={by} details={details} />}
    </Part>
  );
};

const ClearOverride = ({ by, details }: { by: RequirementsSource; details: JobDetails }) => {
  const [isOpen, setOpen] = useState(false);
  const refusedBecause = refusal("requirements", details);
  return (
    <Box mt={1}>
      <Button
        disabled={refusedBecause !== null}
        onClick={() => setOpen(true)}
        size="xs"
        title={refusedBecause ?? undefined}
        variant="outline"
      >
        Clear the override
      </Button>
      {isOpen && <ClearOverrideDialog by={by} details={details} onClose={() => setOpen(false)} />}
    </Box>
  );
};

const PolicyPart = ({ policy }: { policy: PublishedPolicy }) => {
  const [label, color, meaning] = STATUS_TEXTS[policyStatus(policy)];
  return (
    <Part
      aside={
        <Badge colorPalette={color} variant={policy.dry_run ? "solid" : "subtle"}>
          {label}
        </Badge>
      }
      title={`Rescale policy, ${policyText(policy.kind)}`}
    >
      {!policy.active && <Text color="fg.muted">{meaning}</Text>}
      {policy.problem !== null && (
        <Alert.Root size="sm" status="warning">
          <Alert.Indicator />
          <Alert.Title overflowWrap="anywhere">Not applied: {readable(policy.problem)}</Alert.Title>
        </Alert.Root>
      )}
      {policy.advice === null ? (
        <Text color="fg.muted">The policy has not given advice yet.</Text>
      ) : (
        <Advised advice={policy.advice} isDryRun={policy.dry_run} />
      )}
    </Part>
  );
};

const Advised = ({ advice, isDryRun }: { advice: PublishedAdvice; isDryRun: boolean }) => (
  <>
    <Text fontWeight="semibold" overflowWrap="anywhere">
      {isDryRun ? "Would set " : ""}
      {ranges(advice.bounds)}
    </Text>
    <Text overflowWrap="anywhere">
      By <b>{advice.source}</b>, <Moment at={advice.since} />
      {advice.next_at !== null && <NextChange at={advice.next_at} />}
    </Text>
    <Reason text={advice.reason} />
  </>
);

const NextChange = ({ at }: { at: string }) => {
  const seconds = (Date.parse(at) - useNow()) / 1_000;
  return (
    <Text as="span" title={moment(at)}>
      ; next change {seconds <= 0 ? "now" : `in ${duration(Math.ceil(seconds))}`} ({moment(at)})
    </Text>
  );
};

const Reason = ({ text }: { text: string }) =>
  text === "" ? null : (
    <Text color="fg.muted" overflowWrap="anywhere">
      Why: {readable(text)}
    </Text>
  );

const Part = ({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) => (
  <Box fontSize="sm" minWidth={0}>
    <Flex align="center" gap={2} mb={1} wrap="wrap">
      <Heading as="h3" color="fg.muted" fontSize="xs" fontWeight="bold">
        {title}
      </Heading>
      {aside}
    </Flex>
    <Stack gap={1}>{children}</Stack>
  </Box>
);
