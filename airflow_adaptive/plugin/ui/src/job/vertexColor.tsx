import { Box } from "@chakra-ui/react";

/** Palettes that differ from those of states that mean trouble. */
const PALETTES = ["blue", "teal", "purple", "orange", "pink", "green", "cyan", "yellow"];

/** The palette of the vertex at this place of the graph. */
export const vertexColor = (index: number): string =>
  PALETTES[Math.max(index, 0) % PALETTES.length] ?? "gray";

/** A spot of a vertex's color. */
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
