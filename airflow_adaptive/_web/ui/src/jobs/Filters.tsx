import { Button, Field, Flex, Input, NativeSelect } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";
import type { JobsFilter } from "../api/queries";
import { STATE_NAMES, styleOf } from "../lib/scheduler/states";

interface Props {
  filter: JobsFilter;
  onChange: (changed: Partial<JobsFilter>) => void;
}

/** Time without a key press until the search starts. */
const DEBOUNCE_MS = 250;

/** Filters the jobs by a part of the name and by state. */
export const Filters = ({ filter, onChange }: Props) => (
  <Flex align="end" gap={3} mb={3} role="search" wrap="wrap">
    <NameFilter name={filter.name} onChange={onChange} />
    <Field.Root width={{ base: "full", sm: "56" }}>
      <Field.Label fontSize="xs">State</Field.Label>
      <NativeSelect.Root size="sm">
        <NativeSelect.Field
          onChange={(event) => onChange({ state: event.target.value })}
          value={filter.state}
        >
          <option value="">All states</option>
          {STATE_NAMES.map((name) => (
            <option key={name} value={name}>
              {styleOf(name).label}
            </option>
          ))}
          <option value="unknown">Unknown</option>
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Field.Root>
    {(filter.name !== "" || filter.state !== "") && (
      <Button onClick={() => onChange({ name: "", state: "" })} size="sm" variant="ghost">
        Clear
      </Button>
    )}
  </Flex>
);

const NameFilter = ({ name, onChange }: { name: string; onChange: Props["onChange"] }) => {
  const [text, setText] = useState(name);
  const sent = useRef(name);
  useEffect(() => {
    // A name that differs from the sent name comes from a cleared filter or from the history of the browser.
    if (name === sent.current) return;
    sent.current = name;
    setText(name);
  }, [name]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = window.setTimeout(() => {
      sent.current = text;
      onChange({ name: text });
    }, DEBOUNCE_MS);
    return () => window.clearTimeout(timer);
  }, [text, onChange]);
  return (
    <Field.Root width={{ base: "full", sm: "72" }}>
      <Field.Label fontSize="xs">Name</Field.Label>
      <Input
        maxLength={250}
        onChange={(event) => setText(event.target.value)}
        placeholder="Part of the name"
        size="sm"
        type="search"
        value={text}
      />
    </Field.Root>
  );
};
