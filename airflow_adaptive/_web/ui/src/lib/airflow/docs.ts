declare const __VERSION__: string;

const SITE = "https://github.com/airflow-adaptive/airflow-adaptive/blob";

/** Address of a page of the documentation of this version. */
export const docs = (page: string): string => `${SITE}/v${__VERSION__}/docs/${page}.md`;
