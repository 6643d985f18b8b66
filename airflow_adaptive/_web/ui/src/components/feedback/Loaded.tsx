import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ProblemError } from "../../api/problem";
import { Loading, ProblemPlaceholder, StaleDataAlert } from "./Placeholder";

interface Props<Data> {
  query: UseQueryResult<Data, Error>;
  lines?: number;
  exit?: ReactNode;
  children: (data: Data) => ReactNode;
}

/** Errors after which the page must not show old data: logged out, forbidden, not found. */
const FINAL = [401, 403, 404];

/** Shows the data of a query, or a placeholder while there is no data. */
export const Loaded = <Data,>({ query, lines = 6, exit, children }: Props<Data>) => {
  const { data, error, refetch } = query;
  const isFinal = error instanceof ProblemError && FINAL.includes(error.status);
  if (error !== null && (data === undefined || isFinal)) {
    return <ProblemPlaceholder error={error} onRetry={() => void refetch()} exit={exit} />;
  }
  if (data === undefined) return <Loading lines={lines} />;
  return (
    <>
      {error !== null && <StaleDataAlert error={error} />}
      {children(data)}
    </>
  );
};
