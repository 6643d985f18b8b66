/** Response bodies of the REST API, and names of their parts. */
import type { VertexRequirements } from "./schemas";

export type * from "./schemas";

export type Counts = Record<string, number>;

export type Requirements = Record<string, VertexRequirements>;
