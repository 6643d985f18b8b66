"""Errors of the embedded cluster."""

from __future__ import annotations


class LocalClusterError(RuntimeError):
    """The embedded cluster cannot do what was requested. The message names the fix."""
