"""Failures of queries, of the script and of the driver."""

from datetime import timedelta

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import failure_record
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import outcome, request


def test_failure_that_no_restart_mends_fails_the_job(small: Simulation) -> None:
    small.clock.at(20, lambda: small.drivers.fail_query("AnalysisException", "no such column"))
    end = small.run_to_end()
    assert end.outcome is Outcome.FAILED
    assert end.cause is not None
    assert "no such column" in end.cause.summary


def test_failures_are_displayed_with_what_followed(small: Simulation) -> None:
    small.clock.at(20, lambda: small.drivers.fail_query("TASK_FAILED", "executor 1 is gone"))
    small.clock.at(40, request(small, DesiredState.SUSPENDED))
    small.run()
    (record,) = map(failure_record, small.store.views[-1].recent_failures)
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 1], "the driver lives on"
    assert record["failure"] == "TASK_FAILED: executor 1 is gone"
    assert (record["state"], record["decision"], record["concurrent"]) == ("Executing", "restarting in 1 s", [])


def test_mistake_in_the_authors_function_fails_a_job_that_has_never_run(small: Simulation) -> None:
    mistake = FailureReport(
        error_class="KeyError", message="'flights'", causes=(FailureCode.BUILD_FUNCTION_ERROR, "KeyError")
    )
    small.drivers.build_failure = mistake
    end = small.run_to_end()
    assert end.cause is not None
    assert end.cause.summary == "KeyError: 'flights'"
    assert len(small.cluster.submissions) == 1


def test_mistake_in_a_function_that_has_worked_is_tried_again(small: Simulation) -> None:
    mistake = FailureReport(
        error_class="KeyError", message="'flights'", causes=(FailureCode.BUILD_FUNCTION_ERROR, "KeyError")
    )
    small.clock.at(20, small.drivers.fail_query)
    small.clock.at(20, lambda: setattr(small.drivers, "build_failure", mistake))
    small.clock.at(30, lambda: setattr(small.drivers, "build_failure", None))
    small.clock.at(80, request(small, DesiredState.SUSPENDED))
    state = small.run()
    assert outcome(state) is Outcome.SUSPENDED
    assert "KeyError" in {record.failure.error_class for record in state.failures}


def test_report_that_is_being_replaced_is_no_loss(small: Simulation) -> None:
    small.clock.at(20, lambda: setattr(small.drivers, "hang", True))
    small.clock.at(20, lambda: setattr(small.directory, "reported", None))
    small.clock.at(23, lambda: setattr(small.drivers, "hang", False))
    small.clock.at(40, request(small, DesiredState.SUSPENDED))
    small.run()
    assert "RestartingLocally" not in small.states


def test_next_loop_that_finds_no_report_yet_loses_no_slot(small: Simulation) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=20)))
    small.drivers.hang, small.directory.reported = True, None
    small.clock.at(25, lambda: setattr(small.drivers, "hang", False))
    small.clock.at(40, request(small, DesiredState.SUSPENDED))
    small.run()
    assert "RestartingLocally" not in small.states


def test_driver_that_could_not_be_submitted_is_tried_again_and_gives_the_reason(small: Simulation) -> None:
    small.clock.at(2, lambda: setattr(small.cluster, "submits", False))
    small.clock.at(5, lambda: setattr(small.cluster, "submits", True))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    small.run()
    assert len(small.drivers.started) == 1
    assert any("NOT_SUBMITTED: " in transition.reason for transition in small.transitions)
