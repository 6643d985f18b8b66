"""The transition table: the states to which each event may lead from each state. The table is total, and tests compare it with `step`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    Event,
    JobCompleted,
    JobRedeployed,
    PlanActivated,
    PlanRejected,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SavepointFailed,
    SchedulingStarted,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
)
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    StopWithSavepoint,
    WaitingForResources,
)

States = frozenset[type]
"""Classes of states."""

_DONE: States = frozenset({Finished})
_CANCEL: States = frozenset({Canceling})
_STOP: States = frozenset({StopWithSavepoint})
_NOWHERE: States = frozenset()
_RESCALE: States = frozenset({Deploying, Restarting})
"""A rescale of executors only leads to Deploying; all other rescales lead to Restarting."""
_LIVING_DRIVER_FAILED: States = frozenset({Restarting, Failing})
_DRIVER_GONE: States = frozenset({Restarting, Finished})
"""If no query runs, the job skips Failing and Canceling."""

_RUNNING: Mapping[type, States] = {
    DriverEnded: _DRIVER_GONE,
    DriverHeartbeatTimedOut: _LIVING_DRIVER_FAILED,
    QueryFailed: _LIVING_DRIVER_FAILED,
    JobCompleted: _DONE,
    CancelRequested: _CANCEL,
    SuspendRequested: _STOP,
}

_LEADS_TO: Mapping[type, Mapping[type, States]] = {
    Created: {
        SchedulingStarted: frozenset({WaitingForResources}),
        QueryFailed: _DONE,
        CancelRequested: _DONE,
        SuspendRequested: _DONE,
    },
    WaitingForResources: {
        SlotsChanged: frozenset({Deploying}),
        RequirementsChanged: frozenset({Deploying}),
        TimerFired: frozenset({Deploying, Finished}),
        QueryFailed: _DONE,
        JobCompleted: _DONE,
        CancelRequested: _CANCEL | _DONE,
        SuspendRequested: _DONE,
    },
    Deploying: {
        **_RUNNING,
        PlanActivated: frozenset({Executing}),
        PlanRejected: frozenset({Executing, Restarting}),
        SlotsChanged: frozenset({Executing}),
        TimerFired: _LIVING_DRIVER_FAILED | _DONE | {Executing},
        DriverHeartbeatTimedOut: _LIVING_DRIVER_FAILED | _DONE,
        QueryFailed: _LIVING_DRIVER_FAILED | _DONE,
        CancelRequested: _CANCEL | _DONE,
        SuspendRequested: _STOP | _DONE,
    },
    Executing: {
        **_RUNNING,
        SlotsChanged: _RESCALE | {RestartingLocally},
        RequirementsChanged: _RESCALE | {RestartingLocally},
        JobRedeployed: _RESCALE,
        DriverPrepared: frozenset({Restarting}),
        TimerFired: _RESCALE | {RestartingLocally},
        BatchCommitted: _RESCALE,
    },
    RestartingLocally: {
        **_RUNNING,
        SlotsChanged: frozenset({Executing}),
        TimerFired: _RESCALE | {Executing},
    },
    Restarting: {
        TimerFired: frozenset({WaitingForResources, Deploying, Executing}),
        JobCompleted: _DONE,
        CancelRequested: _CANCEL | _DONE,
        SuspendRequested: _DONE | {StopWithSavepoint},
    },
    StopWithSavepoint: {
        **_RUNNING,
        SavepointCompleted: _LIVING_DRIVER_FAILED,
        SavepointFailed: _LIVING_DRIVER_FAILED | {Executing},
        SuspendRequested: _NOWHERE,
    },
    Canceling: {DriverEnded: _DONE},
    Failing: {DriverEnded: _DONE, CancelRequested: _CANCEL},
    Finished: {},
}

STATES: tuple[type, ...] = get_args(Current)
"""Every state, in the order of a job's life."""

EVENTS: tuple[type, ...] = get_args(Event)
"""Every event."""

TRANSITIONS: Mapping[type, Mapping[type, States]] = {
    state: {event: _LEADS_TO[state].get(event, frozenset()) for event in EVENTS} for state in STATES
}
"""State -> event -> possible next states. An empty set means that the state does not change."""
