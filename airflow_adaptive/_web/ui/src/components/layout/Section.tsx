import { Box, Flex, Heading } from "@chakra-ui/react";
import { type ReactNode, useId } from "react";

interface Props {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}

/** A framed part of a page with a heading. */
export const Section = ({ title, aside, children }: Props) => {
  const id = useId();
  return (
    <Box
      aria-labelledby={id}
      as="section"
      bg="bg.panel"
      borderColor="border"
      borderRadius="md"
      borderWidth={1}
      minWidth={0}
    >
      <Flex align="center" gap={3} justify="space-between" px={4} pt={3} wrap="wrap">
        <Heading as="h2" fontWeight="semibold" id={id} size="sm">
          {title}
        </Heading>
        {aside}
      </Flex>
      <Box p={4} pt={3}>
        {children}
      </Box>
    </Box>
  );
};
