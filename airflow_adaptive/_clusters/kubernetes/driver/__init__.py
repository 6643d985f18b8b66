"""The objects of a driver on Kubernetes. Pure."""
