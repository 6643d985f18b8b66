/** Light or dark. */
export type ColorMode = "light" | "dark";

/** What the stored choice means: `system`, none and anything else follow the operating system. */
export const resolved = (choice: string | null, systemIsDark: boolean): ColorMode => {
  if (choice === "light" || choice === "dark") return choice;
  return systemIsDark ? "dark" : "light";
};
