/** The scheduler's reasons, with what is written in Python in them as people write it: {'read': 2} -> {'read': 4}. */
export const plain = (reason: string): string =>
  reason
    .replace(/\{('[^']*': \d+(, )?)+\}/g, (found) => found.slice(1, -1).replace(/'([^']*)': /g, "$1 "))
    .replaceAll(" -> ", " → ");
