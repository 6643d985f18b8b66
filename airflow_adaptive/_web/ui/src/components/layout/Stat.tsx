import { Box, Flex, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";

interface Props {
  label: string;
  hint?: string;
  children: ReactNode;
}

/** A value with its name above, as in the headers of Airflow's pages. */
export const Stat = ({ label, hint, children }: Props) => (
  <Box minWidth={0} title={hint}>
    <Text as="dt" color="fg.muted" fontSize="xs" fontWeight="bold" whiteSpace="nowrap">
      {label}
    </Text>
    <Box as="dd" fontSize="sm" fontVariantNumeric="tabular-nums" mt={0.5} overflowWrap="anywhere">
      {children}
    </Box>
  </Box>
);

/** A row of values that wraps onto further lines. */
export const StatList = ({ children }: { children: ReactNode }) => (
  <Flex as="dl" columnGap={8} rowGap={3} wrap="wrap">
    {children}
  </Flex>
);
