"""The client of Kubernetes clusters."""
