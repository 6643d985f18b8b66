"""When a change may be acted on, after Flink's DefaultStateTransitionManager (FLIP-322, FLIP-461, FLIP-472).

Theory: one manager lives for one visit of WaitingForResources or Executing. In *Cooldown* nothing moves; the first usable
change is remembered. *Idling* waits for a change. *Stabilizing* lets more slots arrive until the window after the first
change has passed, but acts at once when all that is desired is there at a trigger. *Stabilized* acts on the next trigger, or
by itself when the trigger is overdue. *Transitioning* is the end: the machine leaves the state.

    Cooldown ──change seen──▶ Stabilizing ──window over──▶ Stabilized ──trigger or overdue──▶ Transitioning
       └──none──▶ Idling ──change──▶ ┘  └───────desired──────▶ Transitioning     └─not sufficient─▶ Idling

Time and resources come in with every call; a call that is late handles what fell due in between, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum


class Phase(StrEnum):
    """Where the manager stands; names as in Flink."""

    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


class Resources(IntEnum):
    """How far the slots at hand go."""

    NONE = 0
    """Nothing to gain by a transition."""
    SUFFICIENT = 1
    """A transition is possible and worth it."""
    DESIRED = 2
    """Everything that was declared is there."""


class CooldownExtension(StrEnum):
    """Whether a change within the cooldown moves its end."""

    NONE = "none"
    """Never (Flink 2.x)."""
    FIRST_CHANGE = "first_change"
    """The first change starts it anew, once (Flink 1.18 to 1.20)."""
    EVERY_CHANGE = "every_change"
    """Each change starts it anew (FLIP-322 as accepted)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionManager:
    """State of one manager.

    Attributes:
        phase: see `Phase`.
        cooldown: length of the cooldown.
        stabilization: window after the first change.
        max_trigger_delay: a trigger is overdue this long after the first change.
        extension: see `CooldownExtension`.
        cooldown_ends: when Cooldown is left.
        cooldown_limit: no extension reaches beyond it; None for no limit.
        first_change: when the first usable change of this round was seen.
        evaluation: when desired resources are checked next without a trigger, None if no check is pending.
    """

    phase: Phase = Phase.COOLDOWN
    cooldown: timedelta
    stabilization: timedelta
    max_trigger_delay: timedelta
    extension: CooldownExtension = CooldownExtension.NONE
    cooldown_ends: datetime
    cooldown_limit: datetime | None = None
    first_change: datetime | None = None
    evaluation: datetime | None = None

    @property
    def due(self) -> datetime | None:
        """When the manager moves next by itself, None if only an event moves it."""
        match self.phase:
            case Phase.COOLDOWN:
                return self.cooldown_ends
            case Phase.STABILIZING:
                window_ends = self._after_first_change(self.stabilization)
                return window_ends if self.evaluation is None else min(window_ends, self.evaluation)
            case Phase.STABILIZED:
                return self._after_first_change(self.max_trigger_delay)
            case Phase.IDLING | Phase.TRANSITIONING:
                return None

    def change(self, now: datetime, resources: Resources) -> TransitionManager:
        """Slots or requirements changed."""
        manager = self.advance(now, resources)
        usable = resources >= Resources.SUFFICIENT
        match manager.phase:
            case Phase.COOLDOWN if usable:
                manager = manager._remember(now)
            case Phase.IDLING if usable:
                manager = manager._stabilize(now)
            case Phase.STABILIZING if manager.evaluation is None:
                manager = replace(manager, evaluation=now + manager.max_trigger_delay)
        return manager.advance(now, resources)

    def trigger(self, now: datetime, resources: Resources) -> TransitionManager:
        """A batch was committed: a good moment to act."""
        manager = self.advance(now, resources)
        match manager.phase:
            case Phase.STABILIZING if resources >= Resources.DESIRED:
                return replace(manager, phase=Phase.TRANSITIONING)
            case Phase.STABILIZED:
                return manager._act(resources)
        return manager

    def advance(self, now: datetime, resources: Resources) -> TransitionManager:
        """Let everything happen that fell due until `now`."""
        manager = self
        while (due := manager.due) is not None and due <= now:
            manager = manager._on_due(due, resources)
        return manager

    def _on_due(self, due: datetime, resources: Resources) -> TransitionManager:
        match self.phase:
            case Phase.COOLDOWN:
                return self._leave_cooldown()
            case Phase.STABILIZING if due == self.evaluation:
                acts = resources >= Resources.DESIRED
                return replace(self, phase=Phase.TRANSITIONING) if acts else replace(self, evaluation=None)
            case Phase.STABILIZING:
                return replace(self, phase=Phase.STABILIZED, evaluation=None)
        return self._act(resources)

    def _leave_cooldown(self) -> TransitionManager:
        if self.first_change is None:
            return replace(self, phase=Phase.IDLING)
        return self._stabilize(self.first_change)

    def _stabilize(self, first_change: datetime) -> TransitionManager:
        return replace(
            self,
            phase=Phase.STABILIZING,
            first_change=first_change,
            evaluation=first_change + self.max_trigger_delay,
        )

    def _act(self, resources: Resources) -> TransitionManager:
        if resources >= Resources.SUFFICIENT:
            return replace(self, phase=Phase.TRANSITIONING)
        return replace(self, phase=Phase.IDLING, first_change=None)

    def _remember(self, now: datetime) -> TransitionManager:
        first = self.first_change is None
        extends = self.extension is CooldownExtension.EVERY_CHANGE or (
            first and self.extension is CooldownExtension.FIRST_CHANGE
        )
        ends = max(self.cooldown_ends, now + self.cooldown) if extends else self.cooldown_ends
        if extends and self.cooldown_limit is not None:
            ends = max(self.cooldown_ends, min(ends, self.cooldown_limit))
        return replace(self, first_change=now if first else self.first_change, cooldown_ends=ends)

    def _after_first_change(self, delay: timedelta) -> datetime:
        # Stabilizing and Stabilized are entered with a first change only; cooldown_ends keeps the type total.
        return (self.first_change or self.cooldown_ends) + delay
