/** Theme of Airflow's pages: Chakra with a bluish gray, and the colors of task states for the scheduler states. */
import { createSystem, defaultConfig, defineConfig } from "@chakra-ui/react";

const HUE = 253;

/** Lightness and chroma of the steps of a gray, light to dark. */
const GRAY: Record<string, [number, number]> = {
  "50": [0.985, 0.004],
  "100": [0.955, 0.006],
  "200": [0.915, 0.01],
  "300": [0.85, 0.016],
  "400": [0.75, 0.025],
  "500": [0.6, 0.04],
  "600": [0.45, 0.05],
  "700": [0.36, 0.045],
  "800": [0.29, 0.036],
  "900": [0.23, 0.032],
  "950": [0.17, 0.028],
};

const STEEL: Record<string, [number, number]> = {
  "50": [0.98, 0.006],
  "100": [0.962, 0.012],
  "200": [0.923, 0.023],
  "300": [0.865, 0.04],
  "400": [0.705, 0.066],
  "500": [0.575, 0.08],
  "600": [0.47, 0.084],
  "700": [0.4, 0.084],
  "800": [0.325, 0.072],
  "900": [0.26, 0.062],
  "950": [0.18, 0.05],
};

const shades = (steps: Record<string, [number, number]>, hue: number) =>
  Object.fromEntries(
    Object.entries(steps).map(([step, [light, chroma]]) => [
      step,
      { value: `oklch(${light} ${chroma} ${hue})` },
    ]),
  );

const semantic = (color: string) => ({
  solid: { value: `{colors.${color}.600}` },
  contrast: { value: "white" },
  fg: { value: { _light: `{colors.${color}.800}`, _dark: `{colors.${color}.200}` } },
  muted: { value: { _light: `{colors.${color}.200}`, _dark: `{colors.${color}.800}` } },
  subtle: { value: { _light: `{colors.${color}.100}`, _dark: `{colors.${color}.900}` } },
  emphasized: { value: { _light: `{colors.${color}.300}`, _dark: `{colors.${color}.700}` } },
  focusRing: { value: { _light: `{colors.${color}.600}`, _dark: `{colors.${color}.300}` } },
});

export const system = createSystem(
  defaultConfig,
  defineConfig({
    globalCss: {
      "html, body": { background: "bg", color: "fg", minHeight: "100%" },
      "*, *::before, *::after": {
        _motionReduce: {
          animationDuration: "0.01ms !important",
          animationIterationCount: "1 !important",
          transitionDuration: "0.01ms !important",
        },
      },
    },
    theme: {
      tokens: {
        colors: {
          black: { value: `oklch(0.23 0.032 266)` },
          gray: shades(GRAY, HUE),
          steel: shades(STEEL, 257),
        },
      },
      semanticTokens: {
        colors: {
          fg: { muted: { value: { _light: "{colors.gray.600}", _dark: "{colors.gray.400}" } } },
          border: {
            DEFAULT: { value: { _light: "{colors.gray.200}", _dark: "{colors.gray.700}" } },
            faint: { value: { _light: "{colors.gray.300}", _dark: "{colors.gray.700}" } },
            emphasized: { value: { _light: "{colors.gray.400}", _dark: "{colors.gray.500}" } },
          },
          bg: {
            subtle: { value: { _light: "{colors.gray.50}", _dark: "{colors.gray.900}" } },
            muted: { value: { _light: "{colors.gray.100}", _dark: "{colors.gray.800}" } },
            panel: { value: { _light: "white", _dark: "{colors.black}" } },
          },
          gray: semantic("gray"),
          steel: semantic("steel"),
        },
      },
    },
  }),
);
