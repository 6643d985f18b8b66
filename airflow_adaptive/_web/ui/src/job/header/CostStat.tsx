import { useQuery } from "@tanstack/react-query";
import { metricsQuery } from "../../api/queries";
import { Stat } from "../../components/layout/Stat";
import { slotHours } from "../../lib/scheduler/slotHours";
import { exact } from "../../lib/format/format";
import { pointsOf } from "../../lib/scheduler/timeSeries";

/** Resolution of the metrics that cover a whole day, in seconds. */
const STEP = 600;

/** The planned slot-hours of a job since midnight, beside those of a cluster with the upper bound of the DAG or of a user. */
export const CostStat = ({ job }: { job: string }) => {
  const page = useQuery({ ...metricsQuery(job, STEP), refetchInterval: STEP * 1_000 }).data;
  const cost = page === undefined ? null : slotHours(pointsOf(page), page.step, new Date());
  return (
    <Stat
      hint="Planned slots times hours since midnight; a static cluster holds the upper bound of the DAG, or of a user, all the time"
      label="Slot-hours today"
    >
      {cost === null ? "–" : `${exact(cost.used)} (static: ${exact(cost.maximum)})`}
    </Stat>
  );
};
