/** Placeholders for data that is empty, loading, forbidden or unavailable. */
import { Alert, Button, EmptyState, Skeleton, Stack, VStack } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { IconType } from "react-icons";
import { LuCircleAlert, LuCloudOff, LuLock, LuLogIn, LuSearchX } from "react-icons/lu";
import { ProblemError } from "../../api/problem";

interface PlaceholderProps {
  icon: IconType;
  title: string;
  children?: ReactNode;
}

/** Replaces the content of a page, or of a part of a page, that is empty. */
export const Placeholder = ({ icon: Icon, title, children }: PlaceholderProps) => (
  <EmptyState.Root role="status" size="md">
    <EmptyState.Content>
      <EmptyState.Indicator>
        <Icon aria-hidden />
      </EmptyState.Indicator>
      <VStack maxWidth="lg" textAlign="center">
        <EmptyState.Title>{title}</EmptyState.Title>
        <EmptyState.Description as="div" overflowWrap="anywhere">
          {children}
        </EmptyState.Description>
      </VStack>
    </EmptyState.Content>
  </EmptyState.Root>
);

const KINDS: Record<number, [IconType, string]> = {
  0: [LuCloudOff, "No connection to Airflow"],
  401: [LuLogIn, "You are logged out"],
  403: [LuLock, "You do not have permission"],
  404: [LuSearchX, "Not found"],
};

interface ProblemPlaceholderProps {
  error: Error;
  /** A link beside the retry button. */
  exit?: ReactNode;
  onRetry?: () => void;
}

/** Replaces content that could not be loaded. */
export const ProblemPlaceholder = ({ error, onRetry, exit }: ProblemPlaceholderProps) => {
  const status = error instanceof ProblemError ? error.status : 500;
  const [icon, title] = KINDS[status] ?? [LuCircleAlert, "Something went wrong"];
  const text = status === 401 ? "Log in to Airflow, then load this page again." : error.message;
  return (
    <Placeholder icon={icon} title={title}>
      <Stack align="center" gap={4}>
        {text}
        {onRetry !== undefined && (
          <Button onClick={onRetry} size="sm" variant="outline">
            Try again
          </Button>
        )}
        {exit}
      </Stack>
    </Placeholder>
  );
};

/** A warning above data that could not be refreshed. */
export const StaleDataAlert = ({ error }: { error: Error }) => (
  <Alert.Root size="sm" status="warning">
    <Alert.Indicator />
    <Alert.Title overflowWrap="anywhere">Not up to date: {error.message}</Alert.Title>
  </Alert.Root>
);

/** Placeholder that appears while the page loads data for the first time. */
export const Loading = ({ lines = 6, height = "8" }: { lines?: number; height?: string }) => (
  <Stack aria-busy aria-label="Loading" gap={3} py={2} role="status">
    {Array.from({ length: lines }, (_, line) => `line-${line}`).map((line) => (
      <Skeleton height={height} key={line} />
    ))}
  </Stack>
);
