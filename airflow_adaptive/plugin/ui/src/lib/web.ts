/** Whether a page may link to an address: what a driver reports could be anything, `javascript:` too. */
export const isWeb = (url: string): boolean => {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
};
