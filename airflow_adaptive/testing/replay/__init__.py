"""Recorded histories of the scheduler, and their replay."""
