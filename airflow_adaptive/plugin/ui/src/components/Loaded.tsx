import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ProblemError } from "../api/problem";
import { Loading, Problem, Trouble } from "./Notice";

interface Props<Data> {
  query: UseQueryResult<Data, Error>;
  lines?: number;
  wayOut?: ReactNode;
  children: (data: Data) => ReactNode;
}

/** Errors after which old data must not be shown any more: logged out, forbidden, gone. */
const FINAL = [401, 403, 404];

/** Data as soon as it is there; until then, or without it, why not. */
export const Loaded = <Data,>({ query, lines = 6, wayOut, children }: Props<Data>) => {
  const { data, error, refetch } = query;
  const isFinal = error instanceof ProblemError && FINAL.includes(error.status);
  if (error !== null && (data === undefined || isFinal)) {
    return <Problem error={error} onRetry={() => void refetch()} wayOut={wayOut} />;
  }
  if (data === undefined) return <Loading lines={lines} />;
  return (
    <>
      {error !== null && <Trouble error={error} />}
      {children(data)}
    </>
  );
};
