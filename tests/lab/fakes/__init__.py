"""Fakes of the ports, and clocks that a test controls."""
