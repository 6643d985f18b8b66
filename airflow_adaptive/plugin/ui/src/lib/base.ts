/**
 * Where the page lives. The server writes a relative `<base>` into it, so it works below any prefix and behind any proxy; it is
 * fixed here once, before the router changes the address.
 */
const base = document.querySelector("base");
export const BASE = new URL(".", document.baseURI);
if (base !== null) {
  base.href = BASE.href;
}

/** The path that the router works below, without a slash at its end. */
export const BASENAME = BASE.pathname.replace(/\/$/, "") || "/";

/** Address of a resource of the API. */
export const api = (path: string): URL => new URL(`../api/v1/${path}`, BASE);

/** Whether the page is shown inside Airflow's frame, whose sandbox opens no other window. */
export const IN_FRAME = window.self !== window.top;

/**
 * Tell Airflow's page that the frame shows another address: it follows only what is loaded, not what a router shows, and it is its
 * address that people copy and load again.
 */
export const tellFrame = (): void => {
  window.frameElement?.dispatchEvent(new Event("load"));
};
