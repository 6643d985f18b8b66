import { Badge, Stack, Tabs } from "@chakra-ui/react";
import type { IconType } from "react-icons";
import { LuChartLine, LuCircleX, LuHistory, LuLayoutGrid, LuScaling, LuSettings } from "react-icons/lu";
import { useSearchParams } from "react-router";
import type { JobDetails } from "../api/types";
import { BoundsSection } from "./BoundsSection";
import { Charts } from "./Charts";
import { Configuration } from "./Configuration";
import { Failures } from "./Failures";
import { PlanTab } from "./PlanTab";
import { Rescales } from "./Rescales";
import { StateSection } from "./StateSection";
import { TimelineTab } from "./TimelineTab";

const TABS: [string, string, IconType][] = [
  ["overview", "Overview", LuChartLine],
  ["timeline", "Timeline", LuHistory],
  ["rescales", "Rescales", LuScaling],
  ["plan", "Plan", LuLayoutGrid],
  ["failures", "Failures", LuCircleX],
  ["configuration", "Configuration", LuSettings],
];

/** Everything about a job, by subject; the tab is part of the address. */
export const JobTabs = ({ details }: { details: JobDetails }) => {
  const [search, setSearch] = useSearchParams();
  const asked = search.get("tab");
  const tab = TABS.some(([value]) => value === asked) ? asked : "overview";
  const open = (value: string) => {
    const next = new URLSearchParams(search);
    if (value === "overview") next.delete("tab");
    else next.set("tab", value);
    setSearch(next, { replace: true });
  };
  return (
    <Tabs.Root lazyMount onValueChange={({ value }) => open(value)} unmountOnExit value={tab} variant="line">
      <Tabs.List overflowX="auto" overflowY="hidden">
        {TABS.map(([value, label, Icon]) => (
          <Tabs.Trigger flexShrink={0} key={value} value={value}>
            <Icon aria-hidden />
            {label}
            {value === "failures" && details.failures > 0 && (
              <Badge colorPalette="red" size="xs">
                {details.failures}
              </Badge>
            )}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      <Tabs.Content value="overview">
        <Stack gap={4}>
          <StateSection details={details} />
          <BoundsSection details={details} />
          <Charts job={details.job} />
        </Stack>
      </Tabs.Content>
      <Tabs.Content value="timeline">
        <TimelineTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="rescales">
        <Rescales job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="plan">
        <PlanTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="failures">
        <Failures job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="configuration">
        <Configuration details={details} />
      </Tabs.Content>
    </Tabs.Root>
  );
};
