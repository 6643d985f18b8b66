/** A job's page stays live by server-sent events; while they can't be had, it asks every few seconds. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../lib/base";
import { merged } from "../lib/series";
import { jobPath, POLL_MS } from "./queries";
import type { JobDetails, Metrics } from "./types";

export type Connection = "connecting" | "live" | "polling" | "offline";

/** What there is of a job beside its details, asked for anew when those change. */
const DEPENDENT = ["plan", "transitions", "failures", "rescales", "rescales-summary"];

const FINEST_STEP = 10;

/** A browser does not try again by itself where it was refused: too many listen, say. */
const TRY_AGAIN_MS = 30_000;

/** Keep everything of a job up to date; tells how that is going. */
export const useLive = (job: string): Connection => {
  const client = useQueryClient();
  const [connected, setConnected] = useState<boolean | null>(null);
  const [visible, setVisible] = useState(!document.hidden);
  const [attempt, setAttempt] = useState(0);
  const online = useOnline();

  useEffect(() => {
    const look = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);

  useEffect(() => {
    if (!visible) return; // a browser has few connections: a tab that nobody looks at keeps none
    const source = new EventSource(api(jobPath(job, "/events")));
    source.onopen = () => setConnected(true);
    let timer: number | undefined;
    source.onerror = () => {
      setConnected(false);
      if (source.readyState !== EventSource.CLOSED) return;
      timer = window.setTimeout(() => setAttempt(attempt + 1), TRY_AGAIN_MS);
    };
    source.addEventListener("job", (event) => {
      setConnected(true);
      client.setQueryData(["job", job, "details"], JSON.parse(event.data) as JobDetails);
      for (const name of DEPENDENT) void client.invalidateQueries({ queryKey: ["job", job, name] });
    });
    source.addEventListener("metrics", (event) => {
      const news = JSON.parse(event.data) as Metrics;
      client.setQueryData<Metrics>(
        ["job", job, "metrics", FINEST_STEP],
        (before) => before && merged(before, news),
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
    const look = () => setOnline(navigator.onLine);
    window.addEventListener("online", look);
    window.addEventListener("offline", look);
    return () => {
      window.removeEventListener("online", look);
      window.removeEventListener("offline", look);
    };
  }, []);
  return online;
};
