import type { MouseEvent } from "react";
import type { TaskKey } from "../../api/types";

/**
 * Base address of the page. The server writes a relative `<base>` into the page, so the page works below any prefix and behind any
 * proxy. This module makes the base absolute before the router changes the address.
 */
const base = document.querySelector("base");
export const BASE = new URL(".", document.baseURI);
if (base !== null) {
  base.href = BASE.href;
}

/** Base path of the router, without a trailing slash. */
export const BASENAME = BASE.pathname.replace(/\/$/, "") || "/";

/** Address of an API resource. */
export const api = (path: string): URL => new URL(`../api/v1/${path}`, BASE);

const airflow = (...path: (string | number)[]): string =>
  new URL(`../../${path.map(encodeURIComponent).join("/")}`, BASE).href;

/** Addresses of Airflow's pages of a DAG and of a task instance. */
export const dagPage = (dag_id: string): string => airflow("dags", dag_id);
export const taskPage = ({ dag_id, map_index, run_id, task_id }: TaskKey): string =>
  airflow(
    ...["dags", dag_id, "runs", run_id, "tasks", task_id],
    ...(map_index < 0 ? [] : ["mapped", map_index]),
  );

const NEW_WINDOW = { rel: "noopener noreferrer", target: "_blank" };

/** A link of Airflow's page, which has the same origin, because the sandbox of its frame cannot open windows. */
const openFromAirflow = (event: MouseEvent<HTMLAnchorElement>): void => {
  event.preventDefault();
  const link = window.parent.document.createElement("a");
  Object.assign(link, { href: event.currentTarget.href, ...NEW_WINDOW }).click();
};

/** Properties of a link that opens another page in a new window. */
export const outside = (url: string) => ({
  href: url,
  onClick: window.self === window.top ? undefined : openFromAirflow,
  ...NEW_WINDOW,
});

/**
 * Notify Airflow's page that the address of the frame has changed. Airflow's page follows only load events, not router changes, and
 * users copy and reload the address of Airflow's page.
 */
export const notifyFrame = (): void => {
  window.frameElement?.dispatchEvent(new Event("load"));
};
