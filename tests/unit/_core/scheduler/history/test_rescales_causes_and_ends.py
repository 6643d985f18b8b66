"""Every cause and every end of a rescale."""

import pytest

from airflow_adaptive._core.scheduler.timeline import (
    TerminalState,
    TerminatedReason,
    TriggerCause,
)
from tests.support.scheduler.rescale_scenarios import (
    ENDS,
    ScenarioBuilder,
    failed_over,
    history,
    offered,
    required,
    scheduled,
)

CAUSES: dict[TriggerCause, ScenarioBuilder] = {
    TriggerCause.INITIAL_SCHEDULE: scheduled,
    TriggerCause.UPDATE_REQUIREMENT: required,
    TriggerCause.NEW_RESOURCE_AVAILABLE: offered,
    TriggerCause.RECOVERABLE_FAILOVER: failed_over,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_record_is_open_while_a_rescale_is_under_way(cause: TriggerCause):
    rescale = CAUSES[cause]().state.timeline.rescale
    assert rescale is not None
    assert (rescale.trigger_cause, rescale.end, rescale.terminated_reason, rescale.terminal_state) == (
        cause,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("end", ENDS)
def test_rescale_ends_as_it_should(end: str):
    life, cause, reason = ENDS[end]
    ended = next(record for record in reversed(history(life())) if record.end is not None)
    assert (ended.trigger_cause, ended.terminated_reason) == (cause, reason)
    assert ended.terminal_state is reason.terminal_state


def test_every_cause_and_every_end_is_in_the_table():
    assert {cause for _, cause, _ in ENDS.values()} == set(TriggerCause)
    ends = {reason for _, _, reason in ENDS.values()}
    assert ends == set(TerminatedReason) - {TerminatedReason.JOB_FAILOVER_RESTARTING}


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (TerminatedReason.SUCCEEDED, TerminalState.COMPLETED),
        (TerminatedReason.EXCEPTION_OCCURRED, TerminalState.FAILED),
        (TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED, TerminalState.IGNORED),
        (TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE, TerminalState.IGNORED),
        (TerminatedReason.JOB_FINISHED, TerminalState.IGNORED),
        (TerminatedReason.JOB_FAILED, TerminalState.IGNORED),
        (TerminatedReason.JOB_CANCELED, TerminalState.IGNORED),
        (TerminatedReason.JOB_FAILOVER_RESTARTING, TerminalState.IGNORED),
    ],
)
def test_terminated_reason_states_the_result_of_a_rescale(reason: TerminatedReason, state: TerminalState):
    assert reason.terminal_state is state
