/** Colors of the charts. A canvas cannot read style sheets. */
import type { ColorMode } from "../../lib/airflow/mode";

export interface ChartColors {
  main: string;
  second: string;
  warm: string;
  bound: string;
  band: string;
  mark: string;
  bad: string;
  grid: string;
  text: string;
  cursor: string;
}

const LIGHT: ChartColors = {
  main: "#1d6fd1",
  second: "#0e8a7d",
  warm: "#c2570c",
  bound: "#8794a8",
  band: "rgba(29, 111, 209, 0.08)",
  mark: "#8b3fd9",
  bad: "#d12c2c",
  grid: "#e6eaf0",
  text: "#52627a",
  cursor: "#34435a",
};

const DARK: ChartColors = {
  main: "#5fa8f5",
  second: "#3fc9b8",
  warm: "#f29a54",
  bound: "#7d8da6",
  band: "rgba(95, 168, 245, 0.10)",
  mark: "#c08bf7",
  bad: "#f47272",
  grid: "#2d3850",
  text: "#a9b6ca",
  cursor: "#d4dcea",
};

export const chartColors = (mode: ColorMode): ChartColors => (mode === "dark" ? DARK : LIGHT);
