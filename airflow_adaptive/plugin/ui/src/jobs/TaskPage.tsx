import { lazy, Suspense } from "react";
import { useQuery } from "@tanstack/react-query";
import { LuLayers } from "react-icons/lu";
import { jobsOfTaskQuery } from "../api/queries";
import { Loaded } from "../components/Loaded";
import { Loading, Notice } from "../components/Notice";
import { JobsTable } from "./JobsTable";

const Job = lazy(() => import("../job/Job"));

/** The tab of a task instance: the job that its task runs; a choice if it is mapped and runs several. */
export const TaskPage = ({ dagId, taskId }: { dagId: string; taskId: string }) => {
  const query = useQuery(jobsOfTaskQuery(dagId, taskId));
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
  <Notice icon={LuLayers} title="This task runs no adaptive job">
    Tasks of AdaptiveSparkOperator do. Their job appears here with their first run.
  </Notice>
);
