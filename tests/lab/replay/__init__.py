"""Recorded histories of the scheduler, and the replay of histories."""
