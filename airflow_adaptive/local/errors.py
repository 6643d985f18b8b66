"""What can go wrong with a cluster on this machine."""

from __future__ import annotations


class LocalClusterError(RuntimeError):
    """The embedded cluster can't do what was asked; the message names the fix."""
