import { Box } from "@chakra-ui/react";

/** Palettes that differ from the palettes of error states. */
const PALETTES = ["blue", "teal", "purple", "orange", "pink", "green", "cyan", "yellow"];

/** The palette of the vertex at this index of the graph. */
export const vertexColor = (index: number): string =>
  PALETTES[Math.max(index, 0) % PALETTES.length] ?? "gray";

/** A dot in the color of a vertex. */
export const Swatch = ({ color }: { color: string }) => (
  <Box
    aria-hidden
    as="span"
    bg="colorPalette.solid"
    borderRadius="xs"
    boxSize="2.5"
    colorPalette={color}
    display="inline-block"
  />
);
