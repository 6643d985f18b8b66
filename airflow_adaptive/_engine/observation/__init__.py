"""Observation: polls of external systems, and the events that follow from them."""
