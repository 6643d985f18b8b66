"""Fakes of the ports, and the contract suites that fakes and real things both pass."""
