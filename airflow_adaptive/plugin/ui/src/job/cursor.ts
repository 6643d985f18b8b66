/** A moment that all charts point at; they are redrawn when it moves, without React. */
import { useSyncExternalStore } from "react";

export interface Cursor {
  at: () => number | null;
  move: (at: number | null) => void;
  subscribe: (listener: () => void) => () => void;
}

export const createCursor = (): Cursor => {
  let at: number | null = null;
  const listeners = new Set<() => void>();
  return {
    at: () => at,
    move: (next) => {
      if (next === at) return;
      at = next;
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
};

/** The moment that is pointed at, null if none is. */
export const useCursor = (cursor: Cursor): number | null => useSyncExternalStore(cursor.subscribe, cursor.at);
