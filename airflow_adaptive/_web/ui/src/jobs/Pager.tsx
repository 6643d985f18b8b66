import { Button, Flex, HStack, NativeSelect, Text } from "@chakra-ui/react";
import { LuChevronLeft, LuChevronRight } from "react-icons/lu";
import type { JobsFilter } from "../api/queries";
import { exact } from "../lib/format/format";

interface Props {
  filter: JobsFilter;
  total: number;
  sizes: number[];
  onChange: (changed: Partial<JobsFilter>) => void;
}

/** Navigation between the pages of a list. */
export const Pager = ({ filter: { limit, offset }, total, sizes, onChange }: Props) => (
  <Flex align="center" as="nav" aria-label="Pages" gap={4} justify="space-between" mt={3} wrap="wrap">
    <Text color="fg.muted" fontSize="sm">
      {exact(offset + 1)}–{exact(Math.min(offset + limit, total))} of {exact(total)}
    </Text>
    <HStack>
      <NativeSelect.Root size="xs" width="28">
        <NativeSelect.Field
          aria-label="Jobs per page"
          onChange={(event) => onChange({ limit: Number(event.target.value) })}
          value={limit}
        >
          {sizes.map((size) => (
            <option key={size} value={size}>
              {size} per page
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
      <Button
        disabled={offset === 0}
        onClick={() => onChange({ offset: Math.max(0, offset - limit) })}
        size="xs"
        variant="outline"
      >
        <LuChevronLeft aria-hidden /> Previous
      </Button>
      <Button
        disabled={offset + limit >= total}
        onClick={() => onChange({ offset: offset + limit })}
        size="xs"
        variant="outline"
      >
        Next <LuChevronRight aria-hidden />
      </Button>
    </HStack>
  </Flex>
);
