"""Options of simulations with several jobs."""

from __future__ import annotations

from typing import Any

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "5 s",
    "max_trigger_delay": "3 s",
    "slot_idle_timeout": "2 s",
    "local_recovery_timeout": "10 s",
}
"""Short timeouts, so that a simulation needs few cycles."""
