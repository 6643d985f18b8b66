/** Errors as RFC 9457 has them. */

/** An answer that is an error, or no answer at all (status 0). */
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

/** The problem that an answer tells; something sensible for answers that tell none. */
export const problemOf = (status: number, statusText: string, text: string): ProblemError => {
  const told = parsed(text);
  const detail =
    typeof told["detail"] === "string" ? told["detail"] : `The server answered ${status} ${statusText}.`;
  const title = typeof told["title"] === "string" ? told["title"] : statusText || `Error ${status}`;
  const errors = Array.isArray(told["errors"])
    ? told["errors"].filter((item) => typeof item === "string")
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

/** Whether asking again may help: not if the server has understood and refuses. */
export const mayRetry = (failures: number, error: Error): boolean =>
  failures < 2 && !(error instanceof ProblemError && error.status >= 400 && error.status < 500);
