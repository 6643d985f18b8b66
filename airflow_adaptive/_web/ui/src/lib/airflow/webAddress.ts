/** Whether the page may link to an address. A driver can report any text, including `javascript:`. */
export const isWeb = (url: string): boolean => {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
};
