import { useQuery } from "@tanstack/react-query";
import { slotsOfDayQuery } from "../api/queries";
import { pointsOf, sparklineOf, withGaps } from "../lib/scheduler/timeSeries";

const WIDTH = 72;
const HEIGHT = 18;

/** The slots of a job within the last day, from zero to the highest number. A gap in the metrics is a gap in the line. */
export const Sparkline = ({ job }: { job: string }) => {
  const { data } = useQuery(slotsOfDayQuery(job));
  const { path, highest } = sparklineOf(
    data === undefined ? [] : withGaps(pointsOf(data), data.step),
    WIDTH,
    HEIGHT,
  );
  if (path === "") return null;
  return (
    <svg
      aria-label={`Slots within the last day, at most ${highest}`}
      height={HEIGHT}
      role="img"
      style={{ display: "block", marginInlineStart: "auto" }}
      viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`}
      width={WIDTH}
    >
      <path d={path} fill="none" stroke="currentColor" strokeOpacity={0.7} strokeWidth={1.5} />
    </svg>
  );
};
