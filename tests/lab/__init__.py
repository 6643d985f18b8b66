"""Fakes of the ports, and the contract suites that the fakes and the real implementations pass."""
