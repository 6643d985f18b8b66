/** The draft of the requirements editor: validation of the input, and the request body of FLIP-291. The server validates again. */
import type { ParallelismRange, Requirements, Vertex } from "../../api/types";

export interface DraftBounds {
  lower: string;
  upper: string;
}

export type Draft = Record<string, DraftBounds>;

export interface Violations {
  lower?: string;
  upper?: string;
}

/** A draft with the given requirements. */
export const draftOf = (requirements: Record<string, ParallelismRange>): Draft =>
  Object.fromEntries(
    Object.entries(requirements).map(([name, range]) => [
      name,
      { lower: String(range.lower), upper: String(range.upper) },
    ]),
  );

/** A request body as ranges. */
export const rangesOf = (body: Requirements): Record<string, ParallelismRange> =>
  Object.fromEntries(
    Object.entries(body).map(([name, item]) => [
      name,
      { lower: item.parallelism.lowerBound, upper: item.parallelism.upperBound },
    ]),
  );

/** The violations of the bounds of a vertex; empty if the bounds are valid. */
export const violations = (draft: DraftBounds, vertex: Vertex): Violations => {
  const found: Violations = {};
  const lower = wholeNumber(draft.lower);
  const upper = wholeNumber(draft.upper);
  const lowerError = boundError(lower, vertex.max_parallelism);
  const upperError = boundError(upper, vertex.max_parallelism);
  if (lowerError !== null) found.lower = lowerError;
  if (upperError !== null) found.upper = upperError;
  if (lowerError === null && upperError === null && lower !== null && upper !== null && lower > upper) {
    found.upper = `Must be at least the lower bound, ${lower}.`;
  }
  return found;
};

/** The whole number in a text, null if the text is not a whole number. */
export const wholeNumber = (text: string): number | null => {
  const trimmed = text.trim();
  return /^[+-]?\d{1,15}$/.test(trimmed) ? Number(trimmed) : null;
};

/** Whether the bounds of every vertex are valid. */
export const isValid = (draft: Draft, vertices: Vertex[]): boolean =>
  vertices.every((vertex) => {
    const bounds = draft[vertex.name];
    return bounds !== undefined && Object.keys(violations(bounds, vertex)).length === 0;
  });

/** The FLIP-291 request body of a valid draft. */
export const bodyOf = (draft: Draft): Requirements =>
  Object.fromEntries(
    Object.entries(draft).map(([name, bounds]) => [
      name,
      {
        parallelism: {
          lowerBound: wholeNumber(bounds.lower) ?? 0,
          upperBound: wholeNumber(bounds.upper) ?? 0,
        },
      },
    ]),
  );

/** Whether two drafts contain the same bounds. */
export const isSame = (one: Draft, other: Draft): boolean =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(
    ([name, bounds]) =>
      wholeNumber(bounds.lower) === wholeNumber(other[name]?.lower ?? "") &&
      wholeNumber(bounds.upper) === wholeNumber(other[name]?.upper ?? ""),
  );

const boundError = (value: number | null, maximum: number): string | null => {
  if (value === null) return "Must be a whole number.";
  if (value < 1) return "Must be at least 1.";
  if (value > maximum) return `Must be at most ${maximum}, the maximum parallelism.`;
  return null;
};
