/** Light or dark as Airflow's page is: it keeps its choice in the local storage of the same origin. */
import { useSyncExternalStore } from "react";
import { type ColorMode, resolved } from "./mode";

/** Where next-themes, which Airflow's page uses, keeps the choice. */
const KEY = "theme";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

const stored = (): string | null => {
  try {
    return window.localStorage.getItem(KEY);
  } catch {
    return null; // the browser keeps nothing for this site
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

/** The color mode; the page is drawn again when it changes. */
export const useColorMode = (): ColorMode => useSyncExternalStore(subscribe, current);
