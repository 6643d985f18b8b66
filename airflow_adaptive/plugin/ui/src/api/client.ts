/** Requests to the API: same origin, Airflow's cookie, JSON; errors as RFC 9457 has them. */
import { api } from "../lib/base";
import { ProblemError, problemOf } from "./problem";

export interface Answer<Body> {
  body: Body;
  etag: string | null;
}

export interface Asking {
  method?: "GET" | "PUT" | "POST" | "DELETE";
  body?: unknown;
  ifMatch?: string | null;
  signal?: AbortSignal;
}

/** Longest wait for an answer. */
const PATIENCE_MS = 20_000;

/** Ask the API. Throws a `ProblemError`. */
export const ask = async <Body>(path: string, asking: Asking = {}): Promise<Answer<Body>> => {
  const response = await sent(path, asking);
  const text = await response.text();
  if (!response.ok) throw problemOf(response.status, response.statusText, text);
  try {
    return { body: (text === "" ? {} : JSON.parse(text)) as Body, etag: response.headers.get("etag") };
  } catch {
    throw new ProblemError(0, "Not understood", "The server answered with something that is not JSON.");
  }
};

const sent = async (path: string, asking: Asking): Promise<Response> => {
  const headers = new Headers({ Accept: "application/json" });
  if (asking.method !== undefined && asking.method !== "GET") headers.set("Content-Type", "application/json");
  if (asking.ifMatch) headers.set("If-Match", asking.ifMatch);
  const patience = AbortSignal.timeout(PATIENCE_MS);
  try {
    return await fetch(api(path), {
      method: asking.method ?? "GET",
      headers,
      body: asking.body === undefined ? null : JSON.stringify(asking.body),
      signal: asking.signal === undefined ? patience : AbortSignal.any([asking.signal, patience]),
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (asking.signal?.aborted) throw error;
    throw new ProblemError(0, "No connection", "Airflow's API server does not answer.");
  }
};
