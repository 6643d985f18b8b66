import { Alert, Badge, Box, Button, Flex, Grid, Heading, Stack, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ReactNode } from "react";
import type { Advice, BoundsBy, JobDetails, Policy } from "../api/types";
import { Moment } from "../components/Moment";
import { Section } from "../components/Section";
import { duration, moment } from "../lib/format";
import { useNow } from "../lib/now";
import { ranges } from "../lib/parallelism";
import { refusal } from "../lib/permissions";
import { plain } from "../lib/plain";
import { holds, isOverride, policyText, setter, type Standing, standing } from "../lib/policies";
import { LiftDialog } from "./LiftDialog";

const STANDINGS: Record<Standing, [string, string, string]> = {
  acts: ["Acts", "green", "The bounds in force are its own."],
  "does not act": ["Does not act now", "gray", "The bounds in force are not its own."],
  "dry run": ["Dry run", "orange", "It tells what it would do, and changes nothing."],
};

/** Who set the bounds in force, and what the rescale policy says; nothing before the job has shown either. */
export const BoundsSection = ({ details }: { details: JobDetails }) => {
  const { bounds_by: by, policy } = details;
  if (by === null && policy === null) return null;
  return (
    <Section title="Bounds">
      <Grid gap={6} gridTemplateColumns={{ base: "minmax(0, 1fr)", md: "repeat(2, minmax(0, 1fr))" }}>
        {by && <InForce by={by} details={details} />}
        {policy && <PolicyPart policy={policy} />}
      </Grid>
    </Section>
  );
};

const InForce = ({ by, details }: { by: BoundsBy; details: JobDetails }) => {
  const until = holds(by);
  return (
    <Part title="In force">
      <Text fontWeight="semibold" overflowWrap="anywhere">
        {ranges(details.requirements)}
      </Text>
      <Text overflowWrap="anywhere">
        Set by <b>{setter(by)}</b>
        {by.since !== null && (
          <>
            , <Moment at={by.since} />
          </>
        )}
        {until !== null && <>, {until}</>}
      </Text>
      {by.kind !== "POLICY" && <Reason text={by.reason} /> /* the policy itself says it beside */}
      {isOverride(by) && <Lift by={by} details={details} />}
    </Part>
  );
};

const Lift = ({ by, details }: { by: BoundsBy; details: JobDetails }) => {
  const [isOpen, setOpen] = useState(false);
  const refused = refusal("requirements", details);
  return (
    <Box mt={1}>
      <Button
        disabled={refused !== null}
        onClick={() => setOpen(true)}
        size="xs"
        title={refused ?? undefined}
        variant="outline"
      >
        Lift these bounds
      </Button>
      {isOpen && <LiftDialog by={by} details={details} onClose={() => setOpen(false)} />}
    </Box>
  );
};

const PolicyPart = ({ policy }: { policy: Policy }) => {
  const [label, color, meaning] = STANDINGS[standing(policy)];
  return (
    <Part
      aside={
        <Badge colorPalette={color} variant={policy.dry_run ? "solid" : "subtle"}>
          {label}
        </Badge>
      }
      title={`Rescale policy, ${policyText(policy.kind)}`}
    >
      {!policy.acts && <Text color="fg.muted">{meaning}</Text>}
      {policy.problem !== null && (
        <Alert.Root size="sm" status="warning">
          <Alert.Indicator />
          <Alert.Title overflowWrap="anywhere">Not followed now: {plain(policy.problem)}</Alert.Title>
        </Alert.Root>
      )}
      {policy.advice === null ? (
        <Text color="fg.muted">It has said nothing yet.</Text>
      ) : (
        <Advised advice={policy.advice} isDryRun={policy.dry_run} />
      )}
    </Part>
  );
};

const Advised = ({ advice, isDryRun }: { advice: Advice; isDryRun: boolean }) => (
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
      ; changes {seconds <= 0 ? "now" : `in ${duration(Math.ceil(seconds))}`} ({moment(at)})
    </Text>
  );
};

const Reason = ({ text }: { text: string }) =>
  text === "" ? null : (
    <Text color="fg.muted" overflowWrap="anywhere">
      Why: {plain(text)}
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
