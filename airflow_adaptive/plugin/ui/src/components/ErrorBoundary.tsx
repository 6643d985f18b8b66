import { Component, type ReactNode } from "react";
import { Problem } from "./Notice";

/** Shows what went wrong in the page itself, instead of nothing at all. */
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
      <Problem error={error} onRetry={() => window.location.reload()} />
    );
  }
}
