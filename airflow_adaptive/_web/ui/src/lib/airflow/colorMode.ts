/** The color mode of Airflow's page, which stores its choice in the local storage of the same origin. */
import { useSyncExternalStore } from "react";
import { type ColorMode, resolved } from "./mode";

/** Key of next-themes, which Airflow's page uses. */
const KEY = "theme";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

const stored = (): string | null => {
  try {
    return window.localStorage.getItem(KEY);
  } catch {
    return null; // the browser blocks the storage of this site
  }
};

const current = (): ColorMode => resolved(stored(), prefersDark.matches);

const apply = (): void => {
  const mode = current();
  const { classList, style } = document.documentElement;
  classList.toggle("dark", mode === "dark");
  classList.toggle("light", mode === "light");
  style.colorScheme = mode;
};

const subscribe = (changed: () => void): (() => void) => {
  const listener = (): void => {
    apply();
    changed();
  };
  window.addEventListener("storage", listener);
  prefersDark.addEventListener("change", listener);
  return () => {
    window.removeEventListener("storage", listener);
    prefersDark.removeEventListener("change", listener);
  };
};

apply();

/** The color mode. A change renders the page again. */
export const useColorMode = (): ColorMode => useSyncExternalStore(subscribe, current);
