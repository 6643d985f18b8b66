"""The scale-up controller of all simulated jobs, as a user would write it."""

from __future__ import annotations

from airflow_adaptive._core.scheduler.requirements import Parallelism


class FleetController:
    """Accepts every increase, unless the scenario makes the code of the user fail.

    Attributes:
        is_broken: whether each call raises an exception.
    """

    is_broken = False

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """See `ScaleUpController`. Raises `KeyError` while the controller is broken."""
        if FleetController.is_broken:
            raise KeyError("a vertex that the job does not have")
        return True
