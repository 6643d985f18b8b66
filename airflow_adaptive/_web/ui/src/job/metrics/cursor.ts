/** The time that all charts mark. The charts redraw without React when the cursor changes. */
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

/** The time of the cursor, null without a cursor. */
export const useCursor = (cursor: Cursor): number | null => useSyncExternalStore(cursor.subscribe, cursor.at);
