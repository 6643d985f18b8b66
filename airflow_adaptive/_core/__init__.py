"""Pure functions and values: no I/O, no clock, no randomness, no logging. The driver runtime ships with this floor."""
