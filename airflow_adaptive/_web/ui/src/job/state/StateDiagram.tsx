import { Box, chakra, VisuallyHidden } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import {
  EDGES,
  type Edge,
  eventText,
  HEIGHT,
  NODE_HEIGHT,
  NODE_WIDTH,
  NODES,
  type Node,
  WIDTH,
} from "./diagram";
import { styleOf } from "../../lib/scheduler/states";

interface Props {
  state: string;
  outcome: string | null;
  /** State before the current state. */
  previous: string | null;
}

const Svg = chakra("svg");
const Path = chakra("path");
const Rect = chakra("rect");
const Label = chakra("text");

/** The states of the scheduler, with the current state, the last transition and the possible transitions. */
export const StateDiagram = ({ state, outcome, previous }: Props) => {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const scrolled = box.current?.parentElement;
    const node = NODES.find(({ name }) => name === state);
    if (!scrolled || node === undefined) return;
    scrolled.scrollLeft = (node.x / WIDTH) * scrolled.scrollWidth - scrolled.clientWidth / 2;
  }, [state]);
  const ahead = EDGES.filter((edge) => edge.source === state);
  const others = EDGES.filter((edge) => edge.isShort && edge.source !== state);
  const last = EDGES.find((edge) => edge.source === previous && edge.target === state);
  return (
    <Box minWidth="38rem" ref={box}>
      <Svg
        aria-label={`State diagram: ${styleOf(state, outcome).label} now`}
        display="block"
        maxHeight="21rem"
        role="img"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        width="full"
      >
        <Markers />
        {others.map((edge) => (
          <Line edge={edge} key={`${edge.source}-${edge.target}`} style="faint" />
        ))}
        {ahead.map((edge) => (
          <Line edge={edge} key={`${edge.source}-${edge.target}`} style="ahead" />
        ))}
        {last !== undefined && <Line edge={last} style="last" />}
        {NODES.map((node) => (
          <State isCurrent={node.name === state} key={node.name} node={node} outcome={outcome} />
        ))}
      </Svg>
      <VisuallyHidden as="ul">
        {ahead.map(({ target, events }) => (
          <li key={target}>
            May go to {styleOf(target).label} when {events.map(eventText).join(", or when ")}.
          </li>
        ))}
      </VisuallyHidden>
    </Box>
  );
};

const EDGE_STYLES = {
  faint: { stroke: "border.faint", strokeWidth: 1, marker: "arrow-faint" },
  ahead: { stroke: "fg.muted", strokeWidth: 1.25, marker: "arrow-ahead" },
  last: { stroke: "blue.500", strokeWidth: 2.25, marker: "arrow-last" },
} as const;

const Markers = () => (
  <defs>
    {Object.values(EDGE_STYLES).map(({ marker, stroke }) => (
      <marker
        id={marker}
        key={marker}
        markerHeight="7"
        markerUnits="userSpaceOnUse"
        markerWidth="8"
        orient="auto"
        refX="7"
        refY="3.5"
      >
        <Path d="M0 0 L8 3.5 L0 7 z" fill={stroke} />
      </marker>
    ))}
  </defs>
);

const Line = ({ edge, style }: { edge: Edge; style: keyof typeof EDGE_STYLES }) => {
  const { marker, stroke, strokeWidth } = EDGE_STYLES[style];
  return (
    <Path d={edge.path} fill="none" markerEnd={`url(#${marker})`} stroke={stroke} strokeWidth={strokeWidth}>
      <title>
        {`${styleOf(edge.source).label} to ${styleOf(edge.target).label}: when ${edge.events.map(eventText).join(", or ")}`}
      </title>
    </Path>
  );
};

const State = ({ node, isCurrent, outcome }: { node: Node; isCurrent: boolean; outcome: string | null }) => {
  const { label, color, meaning } = styleOf(node.name, isCurrent ? outcome : null);
  const lines = wrapped(label);
  return (
    <chakra.g colorPalette={color}>
      <title>{meaning}</title>
      <Rect
        fill={isCurrent ? "colorPalette.solid" : "bg.panel"}
        height={`${NODE_HEIGHT}px`}
        rx="8"
        stroke={isCurrent ? "colorPalette.solid" : "border.emphasized"}
        strokeWidth={isCurrent ? 2 : 1}
        width={`${NODE_WIDTH}px`}
        x={node.x - NODE_WIDTH / 2}
        y={node.y - NODE_HEIGHT / 2}
      />
      {lines.map((line, index) => (
        <Label
          fill={isCurrent ? "colorPalette.contrast" : "fg"}
          fontSize="12.5px"
          fontWeight={isCurrent ? "bold" : "medium"}
          key={line}
          textAnchor="middle"
          x={node.x}
          y={node.y + 4.5 + (index - (lines.length - 1) / 2) * 15}
        >
          {line}
        </Label>
      ))}
    </chakra.g>
  );
};

/** A label, on two lines if the label is long. */
const wrapped = (label: string): string[] => {
  if (label.length <= 14) return [label];
  const middle = label.indexOf(" ", label.length / 3);
  return middle < 0 ? [label] : [label.slice(0, middle), label.slice(middle + 1)];
};
