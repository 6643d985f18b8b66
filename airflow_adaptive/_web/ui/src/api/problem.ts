/** Errors as RFC 9457 problem details. */

/** An error response, or a missing response (status 0). */
export class ProblemError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly errors: string[] = [],
  ) {
    super(detail);
  }
}

/** The problem that a response contains. A response without problem details yields a generic problem. */
export const problemOf = (status: number, statusText: string, text: string): ProblemError => {
  const fields = parsed(text);
  const detail =
    typeof fields["detail"] === "string"
      ? fields["detail"]
      : `The server responded with ${status} ${statusText}.`;
  const title = typeof fields["title"] === "string" ? fields["title"] : statusText || `Error ${status}`;
  const errors = Array.isArray(fields["errors"])
    ? fields["errors"].filter((item) => typeof item === "string")
    : [];
  return new ProblemError(status, title, detail, errors);
};

const parsed = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
};

/** Whether a retry may succeed: not after the server has refused the request (4xx). */
export const mayRetry = (failures: number, error: Error): boolean =>
  failures < 2 && !(error instanceof ProblemError && error.status >= 400 && error.status < 500);
