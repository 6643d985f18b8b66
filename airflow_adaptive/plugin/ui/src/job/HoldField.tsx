import { Field, Flex, Input, NativeSelect, Text } from "@chakra-ui/react";
import { type Hold, holdFinding, type HoldKind } from "../lib/holding";
import { useNow } from "../lib/now";

const KINDS: [HoldKind, string][] = [
  ["lifted", "until they are lifted"],
  ["for", "for a while"],
  ["until", "until a time"],
];

const FIRST: Record<HoldKind, string> = { lifted: "", for: "2 h", until: "" };

interface Props {
  hold: Hold;
  onChange: (hold: Hold) => void;
}

/** How long new bounds are to hold. */
export const HoldField = ({ hold, onChange }: Props) => (
  <Flex align="start" gap={3} wrap="wrap">
    <Field.Root width={{ base: "full", sm: "56" }}>
      <Field.Label fontSize="xs">These bounds hold</Field.Label>
      <NativeSelect.Root size="sm">
        <NativeSelect.Field
          onChange={({ target }) => {
            const kind = target.value as HoldKind;
            onChange({ kind, text: FIRST[kind] });
          }}
          value={hold.kind}
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
    {hold.kind === "lifted" ? null : <End hold={hold} onChange={onChange} />}
  </Flex>
);

const End = ({ hold, onChange }: Props) => {
  const finding = holdFinding(hold, useNow());
  const isTime = hold.kind === "until";
  return (
    <Field.Root invalid={finding !== null} width={{ base: "full", sm: "64" }}>
      <Field.Label fontSize="xs">{isTime ? "Date and time, in your zone" : "Length of time"}</Field.Label>
      <Input
        autoComplete="off"
        maxLength={40}
        onChange={({ target }) => onChange({ ...hold, text: target.value })}
        size="sm"
        type={isTime ? "datetime-local" : "text"}
        value={hold.text}
      />
      <Field.ErrorText aria-live="polite">{finding}</Field.ErrorText>
      {finding === null && (
        <Text color="fg.muted" fontSize="xs">
          Then what they replace comes back.
        </Text>
      )}
    </Field.Root>
  );
};
