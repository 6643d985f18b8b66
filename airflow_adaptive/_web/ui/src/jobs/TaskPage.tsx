import { lazy, Suspense } from "react";
import { useQuery } from "@tanstack/react-query";
import { LuLayers } from "react-icons/lu";
import { jobsOfTaskQuery } from "../api/queries";
import { Loaded } from "../components/feedback/Loaded";
import { Loading, Placeholder } from "../components/feedback/Placeholder";
import { JobsTable } from "./JobsTable";

const Job = lazy(() => import("../job/Job"));

type Task = { dagId: string; taskId: string; mapIndex: string };

/** The tab of a task instance: the job of the instance, or a list of jobs if the task is mapped and no instance is selected. */
export const TaskPage = ({ dagId, taskId, mapIndex }: Task) => {
  const query = useQuery(jobsOfTaskQuery(dagId, taskId, mapIndex));
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
  <Placeholder icon={LuLayers} title="This task does not run an adaptive job">
    Only tasks of AdaptiveSparkOperator run adaptive jobs. The job appears here after the first run of the
    task.
  </Placeholder>
);
