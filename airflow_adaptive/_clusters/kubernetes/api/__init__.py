"""Requests to the API server, and the watch of the pods."""
