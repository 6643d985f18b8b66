"""The clusters on which the demo runs its job: a Spark standalone cluster of its own, or a namespace of a Kubernetes cluster."""
