/** Keeps a job's page up to date with server-sent events, or by polling while no event stream is available. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../lib/airflow/base";
import { merged } from "../lib/scheduler/timeSeries";
import { jobPath, POLL_MS } from "./queries";
import type { JobDetails, Metrics } from "./types";

export type Connection = "connecting" | "live" | "polling" | "offline";

/** Queries of a job that are repeated when the details of the job change. */
const DEPENDENT = ["plan", "transitions", "failures", "rescales", "rescale-summary"];

const FINEST_STEP = 10;

/** A browser does not reconnect after a refusal, for example because too many clients watch jobs. */
const RECONNECT_MS = 30_000;

/** Keep all queries of a job up to date. Returns the state of the connection. */
export const useLive = (job: string): Connection => {
  const client = useQueryClient();
  const [connected, setConnected] = useState<boolean | null>(null);
  const [visible, setVisible] = useState(!document.hidden);
  const [attempt, setAttempt] = useState(0);
  const online = useOnline();

  useEffect(() => {
    const update = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);

  useEffect(() => {
    if (!visible) return; // a browser limits its connections to a server, so a hidden tab opens none
    const source = new EventSource(api(jobPath(job, "/events")));
    source.onopen = () => setConnected(true);
    let timer: number | undefined;
    source.onerror = () => {
      setConnected(false);
      if (source.readyState !== EventSource.CLOSED) return;
      timer = window.setTimeout(() => setAttempt(attempt + 1), RECONNECT_MS);
    };
    source.addEventListener("job", (event) => {
      setConnected(true);
      client.setQueryData(["job", job, "details"], JSON.parse(event.data) as JobDetails);
      for (const name of DEPENDENT) void client.invalidateQueries({ queryKey: ["job", job, name] });
    });
    source.addEventListener("metrics", (event) => {
      const newPoints = JSON.parse(event.data) as Metrics;
      client.setQueryData<Metrics>(
        ["job", job, "metrics", FINEST_STEP],
        (before) => before && merged(before, newPoints),
      );
    });
    source.addEventListener("gone", () => {
      source.close();
      void client.invalidateQueries({ queryKey: ["job", job] });
    });
    return () => {
      window.clearTimeout(timer);
      source.close();
    };
  }, [client, job, visible, attempt]);

  useEffect(() => {
    if (!visible || connected !== false) return;
    const timer = window.setInterval(
      () => void client.invalidateQueries({ queryKey: ["job", job] }),
      POLL_MS,
    );
    return () => window.clearInterval(timer);
  }, [client, job, visible, connected]);

  if (!online) return "offline";
  if (connected === null) return "connecting";
  return connected ? "live" : "polling";
};

const useOnline = (): boolean => {
  const [online, setOnline] = useState(navigator.onLine);
  useEffect(() => {
    const update = () => setOnline(navigator.onLine);
    window.addEventListener("online", update);
    window.addEventListener("offline", update);
    return () => {
      window.removeEventListener("online", update);
      window.removeEventListener("offline", update);
    };
  }, []);
  return online;
};
