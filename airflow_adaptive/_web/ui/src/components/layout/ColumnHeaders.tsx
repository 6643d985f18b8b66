import { Table } from "@chakra-ui/react";

/** The head of a table: a row with the names of its columns. */
export const ColumnHeaders = ({ names }: { names: readonly string[] }) => (
  <Table.Header>
    <Table.Row>
      {names.map((name) => (
        <Table.ColumnHeader key={name} scope="col" whiteSpace="nowrap">
          {name}
        </Table.ColumnHeader>
      ))}
    </Table.Row>
  </Table.Header>
);
