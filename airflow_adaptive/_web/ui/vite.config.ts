import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // the page lives below whatever path Airflow has
  plugins: [react()],
  build: {
    target: "es2022",
    chunkSizeWarningLimit: 1500,
    modulePreload: { polyfill: false },
    license: { fileName: "assets/licenses.md" }, // of what is bundled
    assetsInlineLimit: 0, // the content security policy allows files of ours only
  },
});
