/** Color modes of the page. */
export type ColorMode = "light" | "dark";

/** The color mode of a stored choice. Any choice except light and dark follows the operating system. */
export const resolved = (choice: string | null, systemIsDark: boolean): ColorMode => {
  if (choice === "light" || choice === "dark") return choice;
  return systemIsDark ? "dark" : "light";
};
