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
export const airflowPages = ({ dag_id, map_index, run_id, task_id }: TaskKey) => ({
  dag: airflow("dags", dag_id),
  task: airflow(
    ...["dags", dag_id, "runs", run_id, "tasks", task_id],
    ...(map_index < 0 ? [] : ["mapped", map_index]),
  ),
});

/** Whether the page is inside Airflow's frame, whose sandbox cannot open windows. */
export const IN_FRAME = window.self !== window.top;

/**
 * Notify Airflow's page that the address of the frame has changed. Airflow's page follows only load events, not router changes, and
 * users copy and reload the address of Airflow's page.
 */
export const notifyFrame = (): void => {
  window.frameElement?.dispatchEvent(new Event("load"));
};
