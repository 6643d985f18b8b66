import react from "@vitejs/plugin-react";
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

/** Version of the package, whose documentation the page links to. */
const version = /__version__ = "(.*)"/u.exec(readFileSync("../../__init__.py", "utf8"))?.[1];

export default defineConfig({
  base: "./", // the page lives below whatever path Airflow has
  plugins: [react()],
  define: { __VERSION__: JSON.stringify(version) },
  build: {
    target: "es2022",
    chunkSizeWarningLimit: 1500,
    modulePreload: { polyfill: false },
    license: { fileName: "assets/licenses.md" }, // of what is bundled
    assetsInlineLimit: 0, // the content security policy allows files of ours only
  },
});
