/** What is shown instead of data: nothing there, loading, refused, broken. */
import { Alert, Button, EmptyState, Skeleton, Stack, VStack } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { IconType } from "react-icons";
import { LuCircleAlert, LuCloudOff, LuLock, LuLogIn, LuSearchX } from "react-icons/lu";
import { ProblemError } from "../api/problem";

interface NoticeProps {
  icon: IconType;
  title: string;
  children?: ReactNode;
}

/** A page or a part of one that has nothing else to show. */
export const Notice = ({ icon: Icon, title, children }: NoticeProps) => (
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
  403: [LuLock, "You may not see this"],
  404: [LuSearchX, "Not found"],
};

interface ProblemProps {
  error: Error;
  /** A way out, beside trying again. */
  wayOut?: ReactNode;
  onRetry?: () => void;
}

/** An error in the place of what could not be had. */
export const Problem = ({ error, onRetry, wayOut }: ProblemProps) => {
  const status = error instanceof ProblemError ? error.status : 500;
  const [icon, title] = KINDS[status] ?? [LuCircleAlert, "Something went wrong"];
  const text = status === 401 ? "Log in to Airflow, then load this page again." : error.message;
  return (
    <Notice icon={icon} title={title}>
      <Stack align="center" gap={4}>
        {text}
        {onRetry !== undefined && (
          <Button onClick={onRetry} size="sm" variant="outline">
            Try again
          </Button>
        )}
        {wayOut}
      </Stack>
    </Notice>
  );
};

/** A line above data that is still shown but could not be brought up to date. */
export const Trouble = ({ error }: { error: Error }) => (
  <Alert.Root size="sm" status="warning">
    <Alert.Indicator />
    <Alert.Title overflowWrap="anywhere">Not up to date: {error.message}</Alert.Title>
  </Alert.Root>
);

/** While data is loaded for the first time. */
export const Loading = ({ lines = 6, height = "8" }: { lines?: number; height?: string }) => (
  <Stack aria-busy aria-label="Loading" gap={3} py={2} role="status">
    {Array.from({ length: lines }, (_, line) => `line-${line}`).map((line) => (
      <Skeleton height={height} key={line} />
    ))}
  </Stack>
);
