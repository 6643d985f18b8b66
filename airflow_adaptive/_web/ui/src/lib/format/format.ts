/** Human-readable numbers, times and durations. */

const MISSING = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

/** A count; a large count is abbreviated (12.3K). */
export const count = (value: number | null | undefined): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
};

/** A count with all digits. */
export const exact = (value: number | null | undefined): string =>
  value === null || value === undefined || !Number.isFinite(value) ? MISSING : precise.format(value);

/** What waits at the sources: rows, and files of sources that count files. */
export const backlogText = (
  at: { backlog: number | null; unread_files: number | null } | null | undefined,
): string => {
  const { backlog = null, unread_files: files = null } = at ?? {};
  if (files === null) return count(backlog);
  const text = `${count(files)} file${files === 1 ? "" : "s"}`;
  return backlog === null ? text : `${count(backlog)}, ${text}`;
};

/** Rows per second. */
export const rate = (value: number | null | undefined): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  if (value !== 0 && Math.abs(value) < 10) return `${precise.format(value)}/s`;
  return `${count(value)}/s`;
};

/** A part of a whole, 0 to 1. */
export const percent = (value: number | null | undefined): string =>
  value === null || value === undefined ? MISSING : `${Math.round(value * 1_000) / 10} %`;

/** MiB, or GiB if they are many. */
export const megabytes = (value: number | null | undefined): string => {
  if (value === null || value === undefined) return MISSING;
  return value < 1_024 ? `${Math.round(value)} MiB` : `${Math.round((value / 1_024) * 10) / 10} GiB`;
};

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** Ten years, in seconds. A longer time is not a duration that a person reads. */
const LONG_S = 315_576_000;

/** A duration in its two largest units: 1 d 3 h, 4 m 10 s, 9 s. */
export const duration = (seconds: number | null | undefined): string => {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return MISSING;
  const all = Math.max(0, Math.floor(seconds));
  if (all === 0) return "0 s";
  if (all > LONG_S) return "more than 10 years";
  const first = UNITS.findIndex(([, size]) => all >= size);
  const [unit, size] = UNITS[first] as [string, number];
  const next = UNITS[first + 1];
  const rest = next === undefined ? 0 : Math.floor((all % size) / next[1]);
  const head = `${count(Math.floor(all / size))} ${unit}`;
  return next === undefined || rest === 0 ? head : `${head} ${rest} ${next[0]}`;
};

/** A duration in milliseconds, with a fraction below ten seconds. */
export const millis = (value: number | null | undefined): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  if (value < 1_000) return `${Math.round(value)} ms`;
  return value < 10_000 ? `${precise.format(value / 1_000)} s` : duration(value / 1_000);
};

/** A duration in seconds, with a fraction below ten seconds. */
export const seconds = (value: number | null | undefined): string =>
  millis(value === null || value === undefined ? value : value * 1_000);

const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const hands = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** An instant as date and time, in the time zone of the user. */
export const moment = (at: string | number | null | undefined): string => {
  const date = asDate(at);
  return date === null ? MISSING : `${day.format(date)}, ${clock.format(date)}`;
};

/** The time of day of an instant. */
export const time = (at: string | number): string => {
  const date = asDate(at);
  return date === null ? MISSING : clock.format(date);
};

/** Label of a tick of a time axis of `span` seconds. */
export const tick = (at: number, span: number): string => {
  if (span < 1_200) return clock.format(at * 1_000);
  const hour = hands.format(at * 1_000);
  return span > 100_000 ? `${day.format(at * 1_000).slice(5)} ${hour}` : hour;
};

/** Time since an instant. */
export const ago = (at: string | number | null | undefined, now: number): string => {
  const date = asDate(at);
  if (date === null) return MISSING;
  const age = (now - date.getTime()) / 1_000;
  if (age < 2) return "just now";
  return `${duration(age < 600 ? age : age - (age % 60))} ago`;
};

/** Seconds between two instants. */
export const secondsBetween = (from: string | null, until: number): number | null => {
  const date = asDate(from);
  return date === null ? null : (until - date.getTime()) / 1_000;
};

const asDate = (at: string | number | null | undefined): Date | null => {
  if (at === null || at === undefined) return null;
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? null : date;
};
