import { moment } from "./format";

/** Not one that is a part of a name, such as that of a DAG run. */
const INSTANT = /(?<![\w-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;

/**
 * The scheduler's reasons, with what is written in Python in them as people write it: {'read': 2} -> {'read': 4}, and
 * instants in the viewer's zone.
 */
export const plain = (reason: string): string =>
  reason
    .replace(/\{('[^']*': \d+(, )?)+\}/g, (found) => found.slice(1, -1).replace(/'([^']*)': /g, "$1 "))
    .replace(INSTANT, (found) => moment(found))
    .replaceAll(" -> ", " → ");
