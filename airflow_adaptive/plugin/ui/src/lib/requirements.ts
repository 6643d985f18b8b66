/** The requirement editor's draft: validation while it is typed, and FLIP-291's body. The server has the last word. */
import type { Range, Requirements, Vertex } from "../api/types";

export interface DraftBounds {
  lower: string;
  upper: string;
}

export type Draft = Record<string, DraftBounds>;

export interface Findings {
  lower?: string;
  upper?: string;
}

/** A draft of requirements that are in force or asked for. */
export const draftOf = (requirements: Record<string, Range>): Draft =>
  Object.fromEntries(
    Object.entries(requirements).map(([name, range]) => [
      name,
      { lower: String(range.lower), upper: String(range.upper) },
    ]),
  );

/** A body of the API as ranges. */
export const rangesOf = (body: Requirements): Record<string, Range> =>
  Object.fromEntries(
    Object.entries(body).map(([name, item]) => [
      name,
      { lower: item.parallelism.lowerBound, upper: item.parallelism.upperBound },
    ]),
  );

/** What is wrong with the bounds of a vertex; nothing if they are sound. */
export const violations = (draft: DraftBounds, vertex: Vertex): Findings => {
  const wrong: Findings = {};
  const lower = wholeNumber(draft.lower);
  const upper = wholeNumber(draft.upper);
  const judgedLower = judged(lower, vertex.max_parallelism);
  const judgedUpper = judged(upper, vertex.max_parallelism);
  if (judgedLower !== null) wrong.lower = judgedLower;
  if (judgedUpper !== null) wrong.upper = judgedUpper;
  if (judgedLower === null && judgedUpper === null && lower !== null && upper !== null && lower > upper) {
    wrong.upper = `Must be at least the lower bound, ${lower}.`;
  }
  return wrong;
};

/** The number that a text is, if it is a whole one. */
export const wholeNumber = (text: string): number | null => {
  const trimmed = text.trim();
  return /^[+-]?\d{1,15}$/.test(trimmed) ? Number(trimmed) : null;
};

/** Whether every vertex of a draft is sound. */
export const isSound = (draft: Draft, vertices: Vertex[]): boolean =>
  vertices.every((vertex) => {
    const bounds = draft[vertex.name];
    return bounds !== undefined && Object.keys(violations(bounds, vertex)).length === 0;
  });

/** FLIP-291's body of a sound draft. */
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

/** Whether two drafts ask for the same. */
export const isSame = (one: Draft, other: Draft): boolean =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(
    ([name, bounds]) =>
      wholeNumber(bounds.lower) === wholeNumber(other[name]?.lower ?? "") &&
      wholeNumber(bounds.upper) === wholeNumber(other[name]?.upper ?? ""),
  );

const judged = (value: number | null, maximum: number): string | null => {
  if (value === null) return "Must be a whole number.";
  if (value < 1) return "Must be at least 1.";
  if (value > maximum) return `Must be at most ${maximum}, the maximum parallelism.`;
  return null;
};
