import { Field, Flex, Input, NativeSelect, Text } from "@chakra-ui/react";
import { type Expiry, expiryViolation, type ExpiryKind } from "./expiry";
import { useNow } from "../../lib/format/now";

const KINDS: [ExpiryKind, string][] = [
  ["never", "until they are cleared"],
  ["duration", "for a duration"],
  ["until", "until a time"],
];

const INITIAL_TEXT: Record<ExpiryKind, string> = { never: "", duration: "2 h", until: "" };

interface Props {
  expiry: Expiry;
  onChange: (expiry: Expiry) => void;
}

/** Selects when new bounds expire. */
export const ExpiryField = ({ expiry, onChange }: Props) => (
  <Flex align="start" gap={3} wrap="wrap">
    <Field.Root width={{ base: "full", sm: "56" }}>
      <Field.Label fontSize="xs">These bounds apply</Field.Label>
      <NativeSelect.Root size="sm">
        <NativeSelect.Field
          onChange={({ target }) => {
            const kind = target.value as ExpiryKind;
            onChange({ kind, text: INITIAL_TEXT[kind] });
          }}
          value={expiry.kind}
        >
          {KINDS.map(([kind, label]) => (
            <option key={kind} value={kind}>
              {label}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Field.Root>
    {expiry.kind === "never" ? null : <End expiry={expiry} onChange={onChange} />}
  </Flex>
);

const End = ({ expiry, onChange }: Props) => {
  const violation = expiryViolation(expiry, useNow());
  const isTime = expiry.kind === "until";
  return (
    <Field.Root invalid={violation !== null} width={{ base: "full", sm: "64" }}>
      <Field.Label fontSize="xs">{isTime ? "Date and time, in your time zone" : "Duration"}</Field.Label>
      <Input
        autoComplete="off"
        maxLength={40}
        onChange={({ target }) => onChange({ ...expiry, text: target.value })}
        size="sm"
        type={isTime ? "datetime-local" : "text"}
        value={expiry.text}
      />
      <Field.ErrorText aria-live="polite">{violation}</Field.ErrorText>
      {violation === null && (
        <Text color="fg.muted" fontSize="xs">
          The bounds that these bounds replace then become active again.
        </Text>
      )}
    </Field.Root>
  );
};
