"""What a Kubernetes cluster has room for: requests of drivers and executors, nodes, quotas, and the room that they leave."""
