"""A job in simulated time: a recorded load, a model of its batches, the real scheduler core and a real policy."""
