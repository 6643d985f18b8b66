import { lazy, Suspense } from "react";
import { useQuery } from "@tanstack/react-query";
import { LuLayers } from "react-icons/lu";
import { useSearchParams } from "react-router";
import { jobsOfTaskQuery } from "../api/queries";
import { Loaded } from "../components/feedback/Loaded";
import { Loading, Placeholder } from "../components/feedback/Placeholder";
import { JobsTable } from "./JobsTable";

const Job = lazy(() => import("../job/Job"));

type Task = { dagId: string; taskId: string; mapIndex: string };

/** The tab of a task instance: the job of the instance, or a list of jobs if the task is mapped and no instance is selected. */
export const TaskPage = ({ dagId, taskId, mapIndex }: Task) => {
  const sort = useSearchParams()[0].get("sort") ?? "";
  const query = useQuery(jobsOfTaskQuery(dagId, taskId, mapIndex, sort));
  return (
    <Loaded query={query}>
      {({ jobs }) => {
        const [first, second] = jobs;
        if (first === undefined) return <NoJob />;
        if (second !== undefined) return <JobsTable jobs={jobs} />;
        return (
          <Suspense fallback={<Loading />}>
            <Job isAlone job={first.job} />
          </Suspense>
        );
      }}
    </Loaded>
  );
};

const NoJob = () => (
  <Placeholder icon={LuLayers} title="No adaptive job has published anything for this task">
    If the task failed, its log contains the cause. Only tasks of AdaptiveSparkOperator and of
    @task.adaptive_spark run adaptive jobs.
  </Placeholder>
);
