/** One clock for all countdowns of the page. */
import { useSyncExternalStore } from "react";

let now = Date.now();
let timer: number | undefined;
const listeners = new Set<() => void>();

const tick = (): void => {
  now = Date.now();
  for (const listener of listeners) listener();
};

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  now = Date.now();
  timer ??= window.setInterval(tick, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
};

/** The current time in milliseconds since the epoch, updated every second. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
