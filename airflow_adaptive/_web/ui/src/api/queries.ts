/** The queries of the page: path, cache key and polling interval. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { request } from "./client";
import type {
  Deployments,
  DriverOutput,
  Failures,
  JobCollection,
  JobDetails,
  Metrics,
  PlanDetails,
  Requirements,
  Rescales,
  RescaleSummary,
  TimelineDetails,
} from "./types";

/** Polling interval of lists, and of jobs without an event stream. */
export const POLL_MS = 5_000;

const DAY_S = 86_400;

/** Column of a list by which the REST API sorts -> parameter `order_by`. */
export const ORDER_BY: Record<string, string> = {
  Health: "health",
  Parallelism: "-parallelism",
  Lag: "-lag_s",
  "Rows in": "-input",
  Processed: "-processed",
  Backlog: "-backlog",
  Failures: "-failures",
};

export interface JobsFilter {
  name: string;
  state: string;
  /** Name of a column, "" for the order by name. */
  sort: string;
  limit: number;
  offset: number;
}

/** Path of a resource of a job. */
export const jobPath = (job: string, rest = ""): string => `jobs/${encodeURIComponent(job)}${rest}`;

const get = async <Body>(path: string, signal: AbortSignal): Promise<Body> =>
  (await request<Body>(path, { signal })).body;

export const jobsQuery = (filter: JobsFilter) =>
  queryOptions({
    queryKey: ["jobs", filter],
    queryFn: ({ signal }) => get<JobCollection>(`jobs?${searchOf(filter)}`, signal),
    placeholderData: keepPreviousData,
    refetchInterval: POLL_MS,
  });

const searchOf = (filter: JobsFilter): URLSearchParams => {
  const search = new URLSearchParams({ limit: String(filter.limit), offset: String(filter.offset) });
  if (filter.name !== "") search.set("name_pattern", filter.name);
  if (filter.state !== "") search.set("state", filter.state);
  return sortedBy(filter.sort, search);
};

const sortedBy = (column: string, search: URLSearchParams): URLSearchParams => {
  const order = ORDER_BY[column];
  if (order !== undefined) search.set("order_by", order);
  return search;
};

/** The jobs that a task runs; of a mapped task, the job of one task instance. */
export const jobsOfTaskQuery = (dagId: string, taskId: string, mapIndex: string, sort: string) =>
  queryOptions({
    queryKey: ["jobs-of-task", dagId, taskId, mapIndex, sort],
    queryFn: ({ signal }) =>
      get<JobCollection>(`jobs?${sortedBy(sort, searchOfTask(dagId, taskId, mapIndex))}`, signal),
    placeholderData: keepPreviousData,
    refetchInterval: POLL_MS,
  });

const searchOfTask = (dagId: string, taskId: string, mapIndex: string): URLSearchParams => {
  const search = new URLSearchParams({ dag_id: dagId, task_id: taskId, limit: "100" });
  if (/^\d+$/u.test(mapIndex)) search.set("map_index", mapIndex);
  return search;
};

const ofJob = <Body>(job: string, name: string, path: string) =>
  queryOptions({
    queryKey: ["job", job, name],
    queryFn: ({ signal }) => get<Body>(jobPath(job, path), signal),
  });

export const jobQuery = (job: string) => ofJob<JobDetails>(job, "details", "");
export const planQuery = (job: string) => ofJob<PlanDetails>(job, "plan", "/plan");
export const timelineQuery = (job: string) => ofJob<TimelineDetails>(job, "transitions", "/transitions");
export const failuresQuery = (job: string) => ofJob<Failures>(job, "failures", "/failures");
export const rescalesQuery = (job: string) => ofJob<Rescales>(job, "rescales", "/rescales");
export const rescaleSummaryQuery = (job: string) =>
  ofJob<RescaleSummary>(job, "rescale-summary", "/rescales/summary");

/** The metrics of the last day in steps of ten minutes, for a list that is drawn once. */
export const slotsOfDayQuery = (job: string) =>
  queryOptions({
    queryKey: ["slots-of-day", job],
    queryFn: ({ signal }) =>
      get<Metrics>(jobPath(job, `/metrics?step=600&since=${Math.floor(Date.now() / 1000) - DAY_S}`), signal),
    staleTime: 600_000,
    refetchOnWindowFocus: false,
    retry: false,
  });

/** What deployments change that have not taken effect. The server reads the DAG, so that the query does not follow each change of the job. */
export const deploymentQuery = (job: string) =>
  queryOptions({
    queryKey: ["deployment", job],
    queryFn: ({ signal }) => get<Deployments>(jobPath(job, "/deployment"), signal),
    refetchInterval: 2 * POLL_MS,
    retry: false,
  });

/** The end of the driver's log. The query asks the cluster, so nothing but the user refreshes it. */
export const driverLogQuery = (job: string) =>
  queryOptions({
    queryKey: ["driver-log", job],
    queryFn: ({ signal }) => get<DriverOutput>(jobPath(job, "/driver-log"), signal),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });

export const metricsQuery = (job: string, step: number) =>
  queryOptions({
    queryKey: ["job", job, "metrics", step],
    queryFn: ({ signal }) => get<Metrics>(jobPath(job, `/metrics?step=${step}`), signal),
  });

/** The requirements with their entity tag. The editor reads them when it opens, and never refreshes them on its own. */
export const requirementsQuery = (job: string) =>
  queryOptions({
    queryKey: ["requirements", job],
    queryFn: ({ signal }) => request<Requirements>(jobPath(job, "/resource-requirements"), { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
