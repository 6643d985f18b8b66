/** Requests to the REST API: same origin, Airflow's cookie, JSON bodies, and errors as RFC 9457 problem details. */
import { api } from "../lib/airflow/base";
import { ProblemError, problemOf } from "./problem";

export interface ApiResponse<Body> {
  body: Body;
  etag: string | null;
}

export interface RequestOptions {
  method?: "GET" | "PUT" | "POST" | "DELETE";
  body?: unknown;
  ifMatch?: string | null;
  signal?: AbortSignal;
}

/** Longest wait for a response. */
const TIMEOUT_MS = 20_000;

/** Send a request to the API. Throws a `ProblemError`. */
export const request = async <Body>(
  path: string,
  options: RequestOptions = {},
): Promise<ApiResponse<Body>> => {
  const response = await send(path, options);
  const text = await response.text();
  if (!response.ok) throw problemOf(response.status, response.statusText, text);
  try {
    return { body: (text === "" ? {} : JSON.parse(text)) as Body, etag: response.headers.get("etag") };
  } catch {
    throw new ProblemError(0, "Invalid response", "The response of the server is not JSON.");
  }
};

const send = async (path: string, options: RequestOptions): Promise<Response> => {
  const headers = new Headers({ Accept: "application/json" });
  if (options.method !== undefined && options.method !== "GET")
    headers.set("Content-Type", "application/json");
  if (options.ifMatch) headers.set("If-Match", options.ifMatch);
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(api(path), {
      method: options.method ?? "GET",
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]),
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ProblemError(0, "No connection", "Airflow's API server does not respond.");
  }
};
