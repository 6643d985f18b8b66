import { moment } from "./format";

/** An instant that is not a part of a name, such as the id of a DAG run. */
const INSTANT = /(?<![\w-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;

/**
 * A reason of the scheduler with human-readable values: without Python's notation ({'read': 2} -> {'read': 4}), and with
 * instants in the time zone of the user.
 */
export const readable = (reason: string): string =>
  reason
    .replace(/\{('[^']*': \d+(, )?)+\}/g, (found) => found.slice(1, -1).replace(/'([^']*)': /g, "$1 "))
    .replace(INSTANT, (found) => moment(found))
    .replaceAll(" -> ", " → ");
