import { Box } from "@chakra-ui/react";
import { lazy, Suspense, useEffect } from "react";
import { LuSearchX } from "react-icons/lu";
import { Route, Routes, useHref, useLocation, useSearchParams } from "react-router";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { Loading, Notice } from "./components/Notice";
import { JobsPage } from "./jobs/JobsPage";
import { TaskPage } from "./jobs/TaskPage";
import { tellFrame } from "./lib/base";
import { useColorMode } from "./lib/colorMode";

const JobPage = lazy(() => import("./job/JobPage"));

/** The pages by address. */
export const App = () => {
  useColorMode();
  const address = useHref(useLocation());
  useEffect(tellFrame, [address]);
  return (
    <Box as="main" maxWidth="full" minHeight="100vh" p={{ base: 3, md: 4 }}>
      <ErrorBoundary>
        <Suspense fallback={<Loading />}>
          <Routes>
            <Route element={<Entrance />} index />
            <Route element={<Entrance />} path="jobs" />
            <Route element={<JobPage />} path="jobs/:job" />
            <Route element={<Notice icon={LuSearchX} title="There is no such page" />} path="*" />
          </Routes>
        </Suspense>
      </ErrorBoundary>
    </Box>
  );
};

/** The list, or on the tab of a task instance the job that it runs. */
const Entrance = () => {
  const [search] = useSearchParams();
  const dagId = search.get("dag_id");
  const taskId = search.get("task_id");
  return dagId !== null && taskId !== null ? <TaskPage dagId={dagId} taskId={taskId} /> : <JobsPage />;
};
