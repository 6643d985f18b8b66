import { Alert, List } from "@chakra-ui/react";
import { ProblemError } from "../../api/problem";

/** Why the server refused a request, with every violation. */
export const ProblemAlert = ({ error }: { error: Error }) => {
  const errors = error instanceof ProblemError ? error.errors : [];
  return (
    <Alert.Root role="alert" size="sm" status="error">
      <Alert.Indicator />
      <Alert.Content minWidth={0}>
        <Alert.Title overflowWrap="anywhere">
          {errors.length > 1 ? "The request was refused" : error.message}
        </Alert.Title>
        {errors.length > 1 && (
          <Alert.Description as="div">
            <List.Root ps={4}>
              {errors.map((text) => (
                <List.Item key={text} overflowWrap="anywhere">
                  {text}
                </List.Item>
              ))}
            </List.Root>
          </Alert.Description>
        )}
      </Alert.Content>
    </Alert.Root>
  );
};
