"""When a change leads to a transition, after Flink's DefaultStateTransitionManager (FLIP-322, FLIP-461, FLIP-472).

Theory: each visit of WaitingForResources or Executing has its own manager. During *Cooldown*, no transition is possible; the
manager records the first sufficient change. *Idling* waits for a change. *Stabilizing* waits for more slots until the
stabilization timeout after the first change, but a trigger with all desired slots leads to the transition at once. *Stabilized*
waits for the next trigger, at most until `max_trigger_delay`. *Transitioning* is final: the state machine leaves the state.

    Cooldown ──change seen──▶ Stabilizing ──window over──▶ Stabilized ──trigger or overdue──▶ Transitioning
       └──none──▶ Idling ──change──▶ ┘  └───────desired──────▶ Transitioning     └─not sufficient─▶ Idling

Each call passes the time and the available resources. A late call handles all deadlines that have passed, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

NO_TIME = timedelta(0)


class Phase(StrEnum):
    """Phase of the manager, with the names of Flink."""

    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


class ResourceLevel(IntEnum):
    """How far the available slots suffice."""

    NONE = 0
    """A transition is not possible or not justified."""
    SUFFICIENT = 1
    """A transition is possible and justified."""
    DESIRED = 2
    """The slots suffice for all upper bounds."""


class CooldownExtension(StrEnum):
    """Whether a change during the cooldown moves the end of the cooldown."""

    NONE = "none"
    """Never (Flink 2.x)."""
    FIRST_CHANGE = "first_change"
    """The first change starts the cooldown again, once (Flink 1.18 to 1.20)."""
    EVERY_CHANGE = "every_change"
    """Each change starts the cooldown again (FLIP-322 as accepted)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionManager:
    """State of one manager.

    Attributes:
        phase: current phase.
        cooldown: length of the cooldown.
        stabilization: time after the first change during which the manager waits for more slots.
        max_trigger_delay: time after the first change when the manager stops waiting for a trigger.
        extension: whether a change extends the cooldown.
        cooldown_ends: end of the cooldown.
        cooldown_limit: latest end of an extended cooldown, None without a limit.
        first_change: time of the first sufficient change, None before such a change.
        evaluation: time of the next check for the desired slots without a trigger, None if no check is pending.
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

    def __post_init__(self) -> None:
        """Check the durations. Raises `ValueError` in Flink's words."""
        if self.max_trigger_delay < NO_TIME:
            raise ValueError("Max trigger delay must not be negative")
        if self.stabilization < NO_TIME:
            raise ValueError("Resource stabilization timeout must not be negative")

    @classmethod
    def begin(
        cls,
        now: datetime,
        *,
        cooldown: timedelta = NO_TIME,
        stabilization: timedelta,
        max_trigger_delay: timedelta = NO_TIME,
        extension: CooldownExtension = CooldownExtension.NONE,
        limit: timedelta | None = None,
        changed: bool = False,
    ) -> TransitionManager:
        """Return the manager of a visit that begins now.

        Args:
            now: time when the visit begins.
            cooldown: length of the cooldown.
            stabilization: time after the first change during which the manager waits for more slots.
            max_trigger_delay: time after the first change when the manager stops waiting for a trigger.
            extension: whether a change extends the cooldown.
            limit: longest extended cooldown, None without a limit.
            changed: whether the available slots are sufficient already, which counts as a change at `now`.
        """
        return cls(
            cooldown=cooldown,
            stabilization=stabilization,
            max_trigger_delay=max_trigger_delay,
            extension=extension,
            cooldown_ends=now + cooldown,
            cooldown_limit=None if limit is None else now + limit,
            first_change=now if changed else None,
        )

    @property
    def due(self) -> datetime | None:
        """Time when the manager changes its phase by itself, None if only an event changes the phase."""
        match self.phase:
            case Phase.COOLDOWN:
                return self.cooldown_ends
            case Phase.STABILIZING:
                window_ends = self._after_first_change(self.stabilization)
                return window_ends if self.evaluation is None else min(window_ends, self.evaluation)
            case Phase.STABILIZED:
                return self._after_first_change(self.max_trigger_delay)
            case _:
                return None

    def change(self, now: datetime, resources: ResourceLevel) -> TransitionManager:
        """Return the manager after a change of slots or requirements."""
        return self.advance(now, resources)._changed(now, resources).advance(now, resources)

    def trigger(self, now: datetime, resources: ResourceLevel) -> TransitionManager:
        """Return the manager after a committed batch, which allows a transition."""
        manager = self.advance(now, resources)
        if manager.phase is Phase.STABILIZED:
            return manager._act(resources)
        if manager.phase is Phase.STABILIZING and resources >= ResourceLevel.DESIRED:
            return replace(manager, phase=Phase.TRANSITIONING)
        return manager

    def advance(self, now: datetime, resources: ResourceLevel) -> TransitionManager:
        """Return the manager after all deadlines until `now`, in order."""
        manager = self
        while (due := manager.due) is not None and due <= now:
            manager = manager._on_due(due, resources)
        return manager

    def _changed(self, now: datetime, resources: ResourceLevel) -> TransitionManager:
        usable = resources >= ResourceLevel.SUFFICIENT
        if self.phase is Phase.COOLDOWN and usable:
            return self._remember(now)
        if self.phase is Phase.IDLING and usable:
            return self._stabilize(now)
        if self.phase is Phase.STABILIZING and self.evaluation is None:
            return replace(self, evaluation=now + self.max_trigger_delay)
        return self

    def _on_due(self, due: datetime, resources: ResourceLevel) -> TransitionManager:
        if self.phase is Phase.COOLDOWN:
            return self._leave_cooldown()
        if self.phase is Phase.STABILIZED:
            return self._act(resources)
        if due != self.evaluation:
            return replace(self, phase=Phase.STABILIZED, evaluation=None)
        if resources >= ResourceLevel.DESIRED:
            return replace(self, phase=Phase.TRANSITIONING)
        return replace(self, evaluation=None)

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

    def _act(self, resources: ResourceLevel) -> TransitionManager:
        if resources >= ResourceLevel.SUFFICIENT:
            return replace(self, phase=Phase.TRANSITIONING)
        return replace(self, phase=Phase.IDLING, first_change=None)

    def _remember(self, now: datetime) -> TransitionManager:
        first = self.first_change is None
        ends = self.cooldown_ends
        if self.extension is CooldownExtension.EVERY_CHANGE or (
            first and self.extension is CooldownExtension.FIRST_CHANGE
        ):
            ends = max(ends, self._within_limit(now + self.cooldown))
        return replace(self, first_change=now if first else self.first_change, cooldown_ends=ends)

    def _within_limit(self, end: datetime) -> datetime:
        return end if self.cooldown_limit is None else min(end, self.cooldown_limit)

    def _after_first_change(self, delay: timedelta) -> datetime:
        # Stabilizing and Stabilized always have a first change; `cooldown_ends` only satisfies the type checker.
        return (self.first_change or self.cooldown_ends) + delay
