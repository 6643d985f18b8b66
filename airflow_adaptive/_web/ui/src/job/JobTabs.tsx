import { Badge, Box, Stack, Tabs } from "@chakra-ui/react";
import type { IconType } from "react-icons";
import {
  LuChartLine,
  LuCircleX,
  LuHistory,
  LuLayoutGrid,
  LuScaling,
  LuScrollText,
  LuSettings,
} from "react-icons/lu";
import { useSearchParams } from "react-router";
import type { JobDetails } from "../api/types";
import { HelpLink } from "../components/values/HelpLink";
import { BoundsSection } from "./requirements/BoundsSection";
import { MetricsCharts } from "./metrics/MetricsCharts";
import { ConfigurationTab } from "./configuration/ConfigurationTab";
import { DeploymentSections } from "./deployment/DeploymentSections";
import { FailuresTab } from "./timeline/FailuresTab";
import { LogTab } from "./log/LogTab";
import { PlanTab } from "./plan/PlanTab";
import { RescalesTab } from "./timeline/RescalesTab";
import { StateSection } from "./state/StateSection";
import { TimelineTab } from "./timeline/TimelineTab";

/** Name in the address, label, icon, and page of the documentation. */
const TABS: [string, string, IconType, string][] = [
  ["overview", "Overview", LuChartLine, "guides/troubleshoot"],
  ["timeline", "Timeline", LuHistory, "reference/timeline"],
  ["rescales", "Rescales", LuScaling, "concepts/rescale-tiers"],
  ["plan", "Plan", LuLayoutGrid, "concepts/slots-and-plan"],
  ["failures", "Failures", LuCircleX, "reference/errors"],
  ["log", "Driver log", LuScrollText, "guides/troubleshoot"],
  ["configuration", "Configuration", LuSettings, "reference/options"],
];

const FIRST = TABS[0] as (typeof TABS)[number];

/** The tabs of a job. The selected tab is part of the address. */
export const JobTabs = ({ details }: { details: JobDetails }) => {
  const [search, setSearch] = useSearchParams();
  const requested = search.get("tab");
  const [tab, label, , help] = TABS.find(([value]) => value === requested) ?? FIRST;
  const open = (value: string) => {
    const next = new URLSearchParams(search);
    if (value === "overview") next.delete("tab");
    else next.set("tab", value);
    setSearch(next, { replace: true });
  };
  return (
    <Tabs.Root lazyMount onValueChange={({ value }) => open(value)} unmountOnExit value={tab} variant="line">
      <Tabs.List overflowX="auto" overflowY="hidden">
        {TABS.map(([value, name, Icon]) => (
          <Tabs.Trigger flexShrink={0} key={value} value={value}>
            <Icon aria-hidden />
            {name}
            {value === "failures" && details.failures > 0 && (
              <Badge colorPalette="red" size="xs">
                {details.failures}
              </Badge>
            )}
          </Tabs.Trigger>
        ))}
        <Box alignSelf="center" ml="auto" px={2}>
          <HelpLink label={`Help about ${label}`} page={help} />
        </Box>
      </Tabs.List>
      <Tabs.Content value="overview">
        <Stack gap={4}>
          <DeploymentSections job={details.job} />
          <StateSection details={details} />
          <BoundsSection details={details} />
          <MetricsCharts job={details.job} />
        </Stack>
      </Tabs.Content>
      <Tabs.Content value="timeline">
        <TimelineTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="rescales">
        <RescalesTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="plan">
        <PlanTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="failures">
        <FailuresTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="log">
        <LogTab job={details.job} />
      </Tabs.Content>
      <Tabs.Content value="configuration">
        <ConfigurationTab details={details} />
      </Tabs.Content>
    </Tabs.Root>
  );
};
