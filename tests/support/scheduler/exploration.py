"""Every event in every state that can be reached, breadth first: what holds of one step is seen to hold of all.

    python -m tests.support.scheduler.exploration [SECONDS]   # of each model

prints how many states and steps there are up to each depth. Where a line says `complete` there are no others.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from time import monotonic

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.policies.transition_manager import ResourceLevel
from airflow_adaptive._core.scheduler.resource_checks import executing_resources
from airflow_adaptive._core.scheduler.state import Executing, Finished, SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.transition_table import TRANSITIONS
from tests.support.scheduler.explored_jobs import MODELS, Model, Place, helped, possible_events
from tests.support.scheduler.invariants import check_edge, check_state

MAX_STEPS_TO_REST = 60
"""Steps in which a world that helps brings any job to rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What there is up to a depth."""

    depth: int
    states: int
    steps: int


@dataclass(slots=True, kw_only=True)
class Exploration:
    """All that can happen to a new job, and to one that runs on all it may have.

    Attributes:
        model: to explore.
        step: the scheduler.
        sampled: of the states, one in so many is compared with all those that count as the same.
        layers: what was found, by depth.
        transitions: (state, event, state) that were seen, and how often.
        complete: there is no state beyond the last layer.
        compared: pairs of states that count as the same, and were seen to have the same future.
    """

    model: Model
    step: Callable[[SchedulerState, Event], Step] = machine.step
    sampled: int = 64
    layers: list[Layer] = field(default_factory=list)
    transitions: Counter[tuple[type, type, type]] = field(default_factory=Counter)
    complete: bool = False
    compared: int = 0
    _parents: dict[int, tuple[int | None, Event | None]] = field(default_factory=dict)
    _sample: dict[int, Place] = field(default_factory=dict)
    _at_rest: set[int] = field(default_factory=set)

    def run(self, depth: int = sys.maxsize, seconds: float = float("inf")) -> "Exploration":
        """Walk until that depth, or the end, or for about that time: no layer is begun that would take too long.

        Raises:
            AssertionError: with the shortest history that leads to what must not be.
        """
        until, took, steps = monotonic() + seconds, 0.0, 0
        new = self.model.begin()
        frontier = [new, self._rest(new)]
        self._parents = {place.key: (None, None) for place in frontier}
        while frontier and len(self.layers) < depth and (began := monotonic()) + 2 * took < until:
            beyond: list[Place] = []
            steps += sum(self._expand(place, beyond) for place in frontier)
            frontier, took = beyond, monotonic() - began
            self.layers.append(Layer(depth=len(self.layers) + 1, states=len(self._parents), steps=steps))
        self.complete = not frontier
        return self

    def _expand(self, place: Place, beyond: list[Place]) -> int:
        """Everything that may follow; the number of steps."""
        key, count = place.key, 0
        for at, event in possible_events(self.model, place):
            count += 1
            try:
                following = self._follow(place, at, event)
                reached = following.key
                if reached not in self._parents:
                    self._parents[reached] = (key, event)
                    beyond.append(following)
                    check_state(following.state)
                    self._rest(following)
                    if len(self._parents) % self.sampled == 0:
                        self._sample[reached] = following
                elif reached in self._sample:
                    self._compare(self._sample[reached], following)
            except Exception as error:
                raise AssertionError("\n".join(["after", *self._history(key), _text_of(event)])) from error
        return count

    def _follow(self, place: Place, at: datetime, event: Event | None) -> Place:
        if event is None:
            return Place(place.state, at)
        step = self.step(place.state, event)
        check_edge(place.state, event, step)
        if step.transition is not None:
            self.transitions[type(place.state.current), type(event), type(step.state.current)] += 1
        return Place(step.state, at)

    def _history(self, key: int) -> list[str]:
        lines: list[str] = []
        parent, event = self._parents[key]
        while parent is not None:
            lines.append(_text_of(event))
            parent, event = self._parents[parent]
        root = "a new job" if key == self.model.begin().key else "a job that runs on all it may have"
        return [root, *lines[::-1]]

    def _rest(self, place: Place) -> Place:
        """In an environment without faults, the job reaches all available slots, or the requested end."""
        passed: list[int] = []
        while place.key not in self._at_rest:
            passed.append(place.key)
            assert len(passed) < MAX_STEPS_TO_REST, f"no rest: {place.state}"
            move = helped(self.model, place)
            if move is None:
                check_rest(place.state)
                break
            place = self._after(place, *move)
        self._at_rest.update(passed)
        return place

    def _compare(self, known: Place, place: Place) -> None:
        if known != place:
            self.compared += 1
            futures = [[self._after(p, *move).key for move in possible_events(self.model, p)] for p in (known, place)]
            assert futures[0] == futures[1], f"{known} and {place} count as the same and have other futures"

    def _after(self, place: Place, at: datetime, event: Event | None) -> Place:
        return Place(place.state if event is None else self.step(place.state, event).state, at)


def check_rest(state: SchedulerState) -> None:
    """Nothing is left to do: the job runs on all that is worth having, or has ended and its driver is gone."""
    match state.current:
        case Executing(plan=plan):
            assert executing_resources(state, plan) is ResourceLevel.NONE
        case Finished():
            assert state.driver is None
        case current:
            raise AssertionError(f"at rest: {current}")


def never_seen(explorations: Iterable[Exploration]) -> set[tuple[str, str, str]]:
    """Entries of the table of transitions that none of the explorations came across."""
    seen = {transition for exploration in explorations for transition in exploration.transitions}
    return {
        (source.__name__, event.__name__, target.__name__)
        for source, row in TRANSITIONS.items()
        for event, targets in row.items()
        for target in targets
        if (source, event, target) not in seen
    }


def _text_of(event: Event | None) -> str:
    return "a second without event" if event is None else str(event)


def explored(name: str, seconds: float, depth: int = sys.maxsize) -> Exploration:
    """What there is of a model, without what the walk had to remember."""
    walked = Exploration(model=MODELS[name]).run(depth, seconds)
    return Exploration(
        model=walked.model,
        layers=walked.layers,
        transitions=walked.transitions,
        complete=walked.complete,
        compared=walked.compared,
    )


def main(seconds: float) -> None:
    """Explore every model for so long, one in each processor, and print what there is."""
    done: list[Exploration] = []
    with ProcessPoolExecutor() as processes:
        for name, exploration in zip(MODELS, processes.map(explored, MODELS, repeat(seconds)), strict=True):
            done.append(exploration)
            extent = "complete" if exploration.complete else "up to this depth"
            sys.stdout.write(f"{name}: {extent}, {exploration.compared:,} pairs of equal states compared\n")
            for layer in exploration.layers:
                sys.stdout.write(f"  depth {layer.depth:3}  {layer.states:9,} states  {layer.steps:11,} steps\n")
            sys.stdout.flush()
    sys.stdout.write(f"transitions of the table never seen: {sorted(never_seen(done)) or 'none'}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
