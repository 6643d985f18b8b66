import { Box } from "@chakra-ui/react";
import { lazy, Suspense, useEffect } from "react";
import { LuSearchX } from "react-icons/lu";
import { Route, Routes, useHref, useLocation, useSearchParams } from "react-router";
import { ErrorBoundary } from "./components/feedback/ErrorBoundary";
import { Loading, Placeholder } from "./components/feedback/Placeholder";
import { JobsPage } from "./jobs/JobsPage";
import { TaskPage } from "./jobs/TaskPage";
import { notifyFrame } from "./lib/airflow/base";
import { useColorMode } from "./lib/airflow/colorMode";

const JobPage = lazy(() => import("./job/JobPage"));

/** Maps addresses to pages. */
export const App = () => {
  useColorMode();
  const address = useHref(useLocation());
  useEffect(notifyFrame, [address]);
  return (
    <Box as="main" maxWidth="full" minHeight="100vh" p={{ base: 3, md: 4 }}>
      <ErrorBoundary>
        <Suspense fallback={<Loading />}>
          <Routes>
            <Route element={<StartPage />} index />
            <Route element={<StartPage />} path="jobs" />
            <Route element={<JobPage />} path="jobs/:job" />
            <Route element={<Placeholder icon={LuSearchX} title="This page does not exist" />} path="*" />
          </Routes>
        </Suspense>
      </ErrorBoundary>
    </Box>
  );
};

/** The list of jobs or, on the tab of a task instance, the job that the task runs. */
const StartPage = () => {
  const [search] = useSearchParams();
  const dagId = search.get("dag_id");
  const taskId = search.get("task_id");
  const mapIndex = search.get("map_index") ?? "-1";
  if (dagId === null || taskId === null) return <JobsPage />;
  return <TaskPage dagId={dagId} mapIndex={mapIndex} taskId={taskId} />;
};
