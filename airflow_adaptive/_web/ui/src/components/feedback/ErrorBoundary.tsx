import { Component, type ReactNode } from "react";
import { ProblemPlaceholder } from "./Placeholder";

/** Shows an error of the page itself instead of an empty page. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error === null ? (
      this.props.children
    ) : (
      <ProblemPlaceholder error={error} onRetry={() => window.location.reload()} />
    );
  }
}
