"""A standby takes over from a driver that ends, a deployment is prepared beside the running driver, and no standby stops a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import snapshot
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    DriverSubmitted,
    JobCompleted,
    MoveAnnounced,
    SubmissionUnanswered,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_outage
from airflow_adaptive._core.scheduler.policies.first_batch import MAX_FAILURES
from airflow_adaptive._core.scheduler.standby import (
    FIRST_RETRY,
    LAST_RETRY,
    DeploymentStage,
    deployment_stage,
    prepared_deployment,
)
from airflow_adaptive._core.scheduler.states.deploying import TAKEOVER_GRACE
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import ReasonCode, TriggerCause
from airflow_adaptive._engine.journal.step_document import adopted, started_again
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario
from tests.lab.simulation.one_job import small_job

AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}
UNPREPARED = Failure(error_class="DepartureError", message="no gate")
NO_ROOM = Failure(error_class=FailureCode.NO_ROOM_FOR_STANDBY, message="the cluster has no room for one more driver")


def executing(slots: int = 2, free: int = 0, **options: Any) -> Scenario:
    """A job that runs on the slots of its upper bounds, and has committed a batch. So many slots are free for a standby."""
    job = Scenario(upper=slots, **{**AT_ONCE, **options}).given_executing(slots)
    return job.when_slots(held=slots, standby=(0, free)).when_committed()


def submitted(job: Scenario) -> list[SubmitDriver]:
    """All drivers that were submitted."""
    return [it for step in job.steps for it in step.commands if isinstance(it, SubmitDriver)]


def killed(job: Scenario) -> list[int]:
    """Epochs of the drivers that were killed."""
    return [it.epoch for step in job.steps for it in step.commands if isinstance(it, KillDriver)]


def expect(job: Scenario, state: str, reason: str = "") -> Scenario:
    """The job is in a state, and a decision since the start gives the reason."""
    assert job.state.name == state
    assert any(reason in step.decision.reason for step in job.steps if step.decision is not None)
    return job


def fails(job: Scenario, failure: Failure = TRANSIENT) -> Scenario:
    """The standby ends."""
    return job.when(DriverEnded(at=job.now, epoch=job.standby_epoch, failure=failure))


@pytest.mark.parametrize(("mode", "free", "slots"), [("driver", 3, 1), ("driver+executors", 3, 2), ("driver", 0, 0)])
def test_standby_starts_after_the_first_batch_on_free_slots(mode: str, free: int, slots: int) -> None:
    job = executing(2, free, standby=mode)
    assert [(it.epoch, it.slots, it.is_standby) for it in submitted(job)] == [(1, 2, False), (2, slots, True)]
    assert Scenario(**AT_ONCE, standby=mode).given_executing(2).state.standby.driver is None
    assert executing(2).state.standby.driver is None


def test_prepared_standby_takes_over_without_a_submission_and_a_backoff() -> None:
    job = executing(standby="driver")
    job.when(DriverSubmitted(at=job.now, epoch=2, submission_id="d2", application_id="a2"))
    expect(job.when_prepared(), "Executing", "can replace the running one at once")
    expect(job.when_driver_ended().when_slots(free=2), "Deploying")
    assert (job.state.epoch, job.state.standby.driver, len(submitted(job))) == (2, None, 2)
    assert job.state.driver is not None
    assert (job.state.driver.submission_id, job.state.driver.application_id) == ("d2", "a2")
    expect(job.when_slots(held=2).when_plan_activated(), "Executing").when_committed()
    assert [it.epoch for it in submitted(job)] == [1, 2, 3]


def test_second_failure_in_a_row_waits_for_the_backoff() -> None:
    job = executing(standby="driver").when_prepared().when_driver_ended().when_slots(free=2)
    job.when_slots(held=2).when_plan_activated().when_committed().when_prepared()
    expect(job.after(5).when_driver_ended(), "Restarting", "restarting in 1.5 s")


def test_driver_without_a_batch_is_replaced_after_the_backoff() -> None:
    job = Scenario(**AT_ONCE).given_executing(2).when_redeployed("new").when_prepared().when_driver_ended()
    expect(job.when_slots(free=2), "Deploying")
    assert job.state.epoch == 2


def test_standby_that_is_not_prepared_gives_way_to_a_new_driver() -> None:
    job = expect(executing(standby="driver").when_driver_ended().after(2).when_slots(free=2), "Deploying")
    assert (job.state.epoch, killed(job)) == (3, [2])
    assert job.state.standby.driver is None


def test_standby_of_a_job_that_ends_is_killed() -> None:
    job = executing(standby="driver").when_prepared().when_suspended()
    assert killed(job) == [2]
    assert job.state.last_epoch == 2


def test_standby_that_fails_is_replaced_later_and_later() -> None:
    job, waits = executing(standby="driver"), []
    for _ in range(7):
        fails(job)
        assert job.state.standby.retry_at is not None
        waits.append(job.state.standby.retry_at - job.now)
        expect(job.after(waits[-1].total_seconds()), "Executing")
    assert (waits[:2], waits[-1]) == ([FIRST_RETRY, 2 * FIRST_RETRY], LAST_RETRY)
    fails(job.when_prepared())
    assert job.state.standby.retry_at == job.now + LAST_RETRY
    fails(job.after(LAST_RETRY.total_seconds()).when_prepared().after(LAST_RETRY.total_seconds()))
    assert job.state.standby.retry_at == job.now + FIRST_RETRY


def test_standby_that_does_not_answer_is_killed() -> None:
    job = executing(standby="driver")
    job.when(SubmissionUnanswered(at=job.now, epoch=2, reason="no answer"))
    expect(job, "Executing", "whether the cluster accepted the standby is unknown")
    job.when(DriverHeartbeatTimedOut(at=job.now, epoch=2, failure=TRANSIENT))
    assert killed(job) == [2]


def test_standby_that_takes_too_long_is_killed() -> None:
    job = expect(executing(standby="driver", deploy_timeout="1 min").after(60), "Executing", "deploy_timeout (60 s)")
    assert killed(job) == [2]


def test_other_events_of_the_standby_are_ignored() -> None:
    job = executing(standby="driver").when_prepared()
    before = job.state
    job.when_prepared().when(JobCompleted(at=job.now, epoch=2))
    assert job.state == before


def test_standby_is_in_the_snapshot() -> None:
    state = executing(standby="driver").when_prepared().state
    assert snapshot.from_json(snapshot.to_json(state)) == state


# ---- deployments ----------------------------------------------------------------------------------------------------


def test_new_code_is_prepared_while_the_job_runs_and_then_taken_up() -> None:
    job = expect(executing(2, free=1).when_redeployed("new"), "Executing", "the new deployment is being prepared")
    assert [(it.epoch, it.slots) for it in submitted(job)] == [(1, 2), (2, 1)]
    expect(job.when_prepared(), "Restarting", "redeployed: the prepared driver takes over")
    job.when(DriverEnded(at=job.now, epoch=1, failure=TRANSIENT, in_order=True, is_confirmed=False))
    assert killed(job) == [1]
    expect(job.when_slots(held=1, free=2), "Deploying")
    assert (job.state.epoch, len(submitted(job))) == (2, 2)


def test_job_rescales_while_new_code_is_prepared() -> None:
    job = Scenario(**AT_ONCE).given_script("job").given_executing(2).when_redeployed("new")
    expect(job.when_slots(held=2, free=2), "Deploying").then_parallelism(4)
    assert job.state.epoch == 1
    expect(job.when_slots(held=4).when_plan_activated(), "Executing")
    expect(job.when_prepared(), "Restarting")


def test_prepared_code_waits_for_the_end_of_the_cooldown() -> None:
    job = executing(scaling_interval_min=30).when_redeployed("new").when_prepared()
    expect(job, "Executing", "the rescale waits")
    expect(job.after(30), "Restarting")


def test_code_that_cannot_be_prepared_never_stops_the_job() -> None:
    job = executing().when_redeployed("bad")
    for _ in range(MAX_FAILURES - 1):
        expect(fails(job, UNPREPARED), "Executing", "the job continues with the running driver").after(60)
    expect(fails(job, UNPREPARED).after(3600), "Executing", "correct the deployment")
    assert len(submitted(job)) == 1 + MAX_FAILURES
    expect(job.when_redeployed("good").when_prepared(), "Restarting")


def test_outage_never_refuses_code() -> None:
    job = executing().when_redeployed("good")
    for _ in range(2 * MAX_FAILURES):
        fails(job).after(LAST_RETRY.total_seconds())
    expect(job.when_prepared(), "Restarting")


def test_refused_code_takes_its_turn_without_preparation_if_nothing_is_prepared_any_more() -> None:
    job = fails(executing().when_redeployed("bad"), HOPELESS)
    job.state = replace(job.state, options=replace(job.state.options, prepare_deployments=False))
    expect(job.when_slots(held=2, free=1), "Restarting", "redeployed")


def test_failure_of_a_query_beside_a_standby_waits_for_the_backoff() -> None:
    expect(executing(standby="driver").when_prepared().when_query_failed(), "Restarting", "restarting in 1 s")


def test_driver_that_has_taken_over_waits_for_the_slots_of_the_driver_before_it() -> None:
    job = executing(standby="driver")
    job.when(DriverSubmitted(at=job.now, epoch=2, submission_id="d2", application_id="a2")).when_prepared()
    expect(job.when_driver_ended().when_slots(free=2), "Deploying").when_slots()
    expect(job.after(TAKEOVER_GRACE.total_seconds() - 1), "Deploying")
    expect(job.after(1), "Restarting", "only 0 of 2 slot(s) are left")


def test_code_against_whose_failure_no_restart_helps_is_refused_at_once() -> None:
    expect(fails(executing().when_redeployed("bad"), HOPELESS), "Executing", "correct the deployment")


def test_deployment_of_the_standby_is_known_before_its_driver() -> None:
    job = executing()
    changes = (lambda: job, lambda: job.when_redeployed("new"), lambda: fails(job, HOPELESS))
    assert [prepared_deployment(change().state) for change in changes] == ["", "new", ""]


def test_job_whose_new_code_is_refused_keeps_a_standby_of_the_running_code() -> None:
    job = fails(executing(standby="driver").when_prepared().when_redeployed("bad"), HOPELESS)
    assert [(it.epoch, it.deployment) for it in submitted(job)] == [(1, ""), (2, ""), (3, "bad"), (4, "")]
    expect(job.when_prepared().when_driver_ended().when_slots(free=2), "Deploying")
    assert (job.state.epoch, job.state.current_deployment) == (4, "")
    expect(job.when_slots(held=2).when_plan_activated().when_redeployed("good").when_prepared(), "Restarting")


def test_newer_code_replaces_code_in_preparation() -> None:
    job = executing().when_redeployed("old").when_redeployed("new")
    assert ([it.epoch for it in submitted(job)], killed(job)) == ([1, 2, 3], [2])
    job.when(DriverPrepared(at=job.now, epoch=2))
    expect(job, "Executing", "DriverPrepared of epoch 2 ignored")


def test_running_driver_ends_first_if_the_cluster_has_no_room_for_one_more() -> None:
    job = fails(executing(max_trigger_delay=60).when_redeployed("new"), NO_ROOM)
    expect(job, "Executing", "the rescale waits")
    expect(job.when_committed(), "Restarting", "redeployed")


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("failure", "deployment"), [(None, ""), (UNPREPARED, ""), (HOPELESS, ""), (NO_ROOM, "new")])
def test_driver_that_ends_is_replaced_by_code_that_works(failure: Failure | None, deployment: str, moved: bool) -> None:
    job = executing(scaling_interval_min=600).when_redeployed("new")
    job = job if failure is None else fails(job, failure)
    stage = deployment_stage(job.state)
    (moves(job) if moved else job.when_driver_ended()).when_slots()
    assert deployment_stage(job.state) is (None if failure is NO_ROOM else stage)
    expect(job.after(2).when_slots(free=2), "Deploying")
    assert (job.state.current_deployment, submitted(job)[-1].deployment) == (deployment, deployment)
    if failure is not HOPELESS:
        job.when_slots(held=2, free=1).when_plan_activated().after(60)
        assert [it.deployment for it in submitted(job)][-1] == "new"


def test_standby_of_new_code_outlives_the_backoff_and_takes_over() -> None:
    job = executing().when_redeployed("new").when_query_failed().when_prepared().when_driver_ended()
    expect(job.after(2).when_slots(free=2), "Deploying")
    assert (job.state.epoch, job.state.current_deployment) == (2, "new")


def test_new_code_replaces_code_that_fails_again_and_again_unless_it_is_refused() -> None:
    for refused, last in ((False, "new"), (True, "")):
        job, started = executing().when_redeployed("new"), []
        job = fails(job, HOPELESS) if refused else job
        for _ in range(MAX_FAILURES):
            job.when_driver_ended(UNPREPARED).after(120).when_slots(free=2)
            started.append(job.state.current_deployment)
            job.when_slots(held=2).when_plan_activated()
        assert started == [""] * (MAX_FAILURES - 1) + [last]


def test_outages_never_let_a_driver_start_with_new_code() -> None:
    job, lost = executing().when_redeployed("new"), Failure(error_class="NOT_SUBMITTED", message="no master")
    for _ in range(2 * MAX_FAILURES):
        job.when_driver_ended(lost).after(120).when_slots(free=2)
        assert job.state.current_deployment == ""


def test_code_that_has_never_worked_is_corrected_without_a_preparation() -> None:
    job = Scenario().given_executing(2).when_query_failed().when_redeployed("fixed")
    expect(job, "Restarting", "because the old one has not worked").when_driver_ended()
    assert submitted(job.after(60).when_slots(free=2))[-1].deployment == "fixed"
    job = Scenario().given_executing(2).when_redeployed("fixed").when_query_failed(UNPREPARED)
    expect(job.when_driver_ended().after(60).when_slots(free=2), "Deploying", "of the new deployment")
    assert job.state.current_deployment == "fixed"


@pytest.mark.parametrize("is_refused", [False, True])
def test_resumed_job_starts_the_newest_code_unless_it_is_refused(is_refused: bool) -> None:
    job, spec = executing(), small_job("job", (1, 2), {})
    job = fails(job.when_redeployed(spec.deployment), HOPELESS if is_refused else UNPREPARED)
    job.when_suspended().when_savepoint_completed().when_driver_ended()
    new = started_again(spec, adopted(spec, job.state, is_policy_active=False)[0])
    assert new.next_deployment == ("" if is_refused else spec.deployment)
    assert new.standby.refused == ""


def test_code_is_prepared_again_after_its_prepared_driver_has_ended() -> None:
    job = executing(scaling_interval_min=600).when_redeployed("b").when_prepared()
    assert deployment_stage(job.when_redeployed("c").when_redeployed("b").state) is DeploymentStage.PREPARING
    job.when_prepared().when_suspended().when_savepoint_failed()
    assert deployment_stage(job.state) is DeploymentStage.PREPARING


@pytest.mark.parametrize("code", ["DRIVER_LOST", "DRIVER_HEARTBEAT_TIMEOUT", "DEPLOY_TIMEOUT", "SUBMISSION_REFUSED"])
def test_code_whose_driver_never_starts_is_refused_beside_a_driver_that_runs(code: str) -> None:
    job, outages = executing().when_redeployed("bad"), ("NOT_SUBMITTED", "DRIVER_MOVED")
    for outside in outages * MAX_FAILURES:
        fails(job, Failure(error_class=outside, message="outside")).after(LAST_RETRY.total_seconds())
    for _ in range(MAX_FAILURES):
        assert deployment_stage(job.state) is DeploymentStage.PREPARING
        fails(job, Failure(error_class=code, message="timed out")).after(LAST_RETRY.total_seconds())
    assert deployment_stage(job.state) is DeploymentStage.REFUSED


def test_lost_standby_does_not_count_against_new_code_while_the_job_is_not_running() -> None:
    job = executing().when_redeployed("new").when_query_failed()
    fails(job, Failure(error_class="DRIVER_LOST", message="killed"))
    assert (job.state.standby.failures, job.state.standby.counted) == (1, 0)


def test_path_of_a_standby_is_no_word_of_an_outage() -> None:
    assert not is_outage(Failure(error_class="X", message="no such file: /jobs/standby/app-1"))
    assert is_outage(Failure(error_class="X", message="Operation READ is not supported in state standby"))


def test_deployment_of_a_running_driver_is_prepared_first() -> None:
    job = executing()
    assert deployment_stage(job.state) is None
    assert deployment_stage(job.when_redeployed("new").state) is DeploymentStage.PREPARING


@pytest.mark.parametrize(
    ("options", "stage"),
    [
        ({"prepare_deployments": False}, DeploymentStage.ENDS_FIRST),
        ({"highest_rescale_tier": 2}, DeploymentStage.NEXT_START),
    ],
)
def test_stage_of_a_deployment_follows_from_the_options(options: dict[str, Any], stage: DeploymentStage) -> None:
    state = replace(executing(**options).state, deployment="new")
    assert deployment_stage(state) is stage


@pytest.mark.parametrize(
    ("failure", "stage"), [(NO_ROOM, DeploymentStage.ENDS_FIRST), (HOPELESS, DeploymentStage.REFUSED)]
)
def test_stage_of_a_deployment_follows_from_its_failure(failure: Failure, stage: DeploymentStage) -> None:
    job = executing(scaling_interval_min=600).when_redeployed("new")
    assert deployment_stage(fails(job, failure).state) is stage


def test_prepared_deployment_waits_for_the_end_of_the_cooldown() -> None:
    job = executing(scaling_interval_min=600).when_redeployed("new").when_prepared()
    assert deployment_stage(job.state) is DeploymentStage.PREPARED


# ---- a driver that others end, for example to drain its node, is replaced at once, and nothing has failed ------------


WHY = Failure(error_class="DRIVER_LOST", message="the driver had to leave its machine (SIGTERM)")


def moves(job: Scenario, **how: bool) -> Scenario:
    """The driver has stopped its queries because others end it."""
    return job.when(DriverEnded(at=job.now, epoch=job.state.epoch, failure=WHY, in_order=True, is_move=True, **how))


def test_driver_that_moves_is_replaced_at_once_and_nothing_has_failed() -> None:
    job = moves(Scenario(upper=4).given_executing(2))
    job.then(
        "Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"), reason=f"{WHY.message}: a new driver starts"
    )
    codes = [step.transition.reason_code for step in job.steps if step.transition is not None]
    assert ReasonCode.DRIVER_MOVED in codes
    assert (job.state.failures, job.state.restarts.attempts, job.state.num_restarts) == ((), 0, 1)


def test_process_that_has_not_ended_is_killed_while_its_successor_starts() -> None:
    job = moves(Scenario().given_executing(2), is_confirmed=False)
    job.then(
        "Deploying",
        KillDriver(epoch=1, submission_id=None, cause="DriverEnded"),
        SubmitDriver(epoch=2, slots=2, cause="TimerFired"),
    )


def test_prepared_standby_takes_over_from_a_driver_that_moves() -> None:
    job = moves(Scenario(upper=2, standby="driver", **AT_ONCE).given_standby(2))
    job.then("Deploying", reason="the prepared driver takes over")
    assert job.state.epoch == 2


def test_job_that_moves_again_and_again_never_has_a_backoff() -> None:
    job = Scenario().given_executing(2)
    for _ in range(5):
        moves(job).then("Deploying", SubmitDriver(epoch=job.state.epoch, slots=2, cause="TimerFired"))
        job.when_slots(held=2).when_plan_activated().then("Executing")
    assert job.state.failures == ()


def test_move_is_a_failover_without_a_failure_in_the_history_of_rescales() -> None:
    job = moves(Scenario().given_executing(2))
    rescale = job.state.timeline.rescale
    assert rescale is not None
    assert (rescale.trigger_cause, rescale.failure) == (TriggerCause.RECOVERABLE_FAILOVER, None)


def test_driver_that_moves_during_its_deployment_keeps_the_record_of_the_rescale() -> None:
    job = Scenario().given_deploying(2)
    number = job.state.timeline.number
    moves(job).then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))
    assert job.state.timeline.number == number


def test_job_waits_for_slots_if_too_few_are_left_elsewhere() -> None:
    job = Scenario(lower=2, upper=4).given_executing(2)
    job.apply_without_timers(job.slots(free=1))
    moves(job).then("WaitingForResources", reason=WHY.message)


@pytest.mark.parametrize("state", ["Restarting", "StopWithSavepoint"])
def test_move_changes_nothing_for_a_job_whose_driver_has_to_stop(state: str) -> None:
    job = Scenario().given_executing(2)
    if state == "Restarting":
        moves(job.when_query_failed()).then("Restarting")
    else:
        moves(job.when_suspended().when_savepoint_completed()).then("Finished")
    assert len(job.state.failures) == (state == "Restarting")


# ---- a driver that will have to leave its machine is replaced when another one is prepared --------------------------


CORDONED = "node a of the driver was cordoned"


def announced(job: Scenario) -> Scenario:
    return job.when(MoveAnnounced(at=job.now, epoch=job.state.epoch, reason=CORDONED))


def test_driver_that_will_have_to_leave_is_replaced_when_another_one_is_prepared() -> None:
    job = announced(executing(2, free=3))
    assert [(it.epoch, it.slots, it.is_standby) for it in submitted(job)[1:]] == [(2, 2, True)]
    expect(job, "Executing", CORDONED)
    expect(job.when_prepared(), "Restarting", f"{CORDONED}: the prepared driver takes over")
    stopped = DriverEnded(at=job.now, epoch=1, failure=TRANSIENT, in_order=True)
    expect(job.when(stopped).when_slots(free=2), "Deploying")
    assert (job.state.epoch, job.state.failures, len(submitted(job))) == (2, (), 2)
    expect(job.when_slots(held=2).when_plan_activated(), "Executing").when_committed()
    assert (len(submitted(job)), job.state.driver and job.state.driver.leaves) == (2, "")


def test_standby_that_is_prepared_takes_over_when_the_driver_will_have_to_leave() -> None:
    expect(announced(executing(free=2, standby="driver").when_prepared()), "Restarting", CORDONED)


@pytest.mark.parametrize("standby", ["none", "driver"])
def test_driver_that_will_have_to_leave_stays_without_room_for_its_plan(standby: str) -> None:
    job = executing(free=1, standby=standby)
    slots = job.slots(held=2, standby=(0, 1))
    on_its_machine = tuple(replace(offer, accepts=False) for offer in slots.offers)
    announced(job.when(replace(slots, offers=on_its_machine)))
    before = len(submitted(job))
    expect(job.after(1), "Executing", CORDONED)
    assert len(submitted(job)) == before == (1 if standby == "none" else 2)


def test_driver_that_will_have_to_leave_stays_before_its_first_batch() -> None:
    job = announced(Scenario(upper=2, **AT_ONCE).given_executing(2).when_slots(held=2, standby=(0, 2)))
    expect(job, "Executing", CORDONED)
    assert len(submitted(job)) == 1


@pytest.mark.parametrize("standby", ["none", "driver"])
def test_driver_of_an_idle_job_has_a_standby_and_leaves_early(standby: str) -> None:
    job = Scenario(upper=2, standby=standby, **AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.when(BatchCommitted(at=job.now, epoch=1, is_idle=True))
    assert (job.state.standby.driver is not None) == (standby == "driver")
    expect(announced(job).when_prepared(), "Restarting", CORDONED)


def leaving() -> Scenario:
    """A job whose driver leaves its machine, and has a batch that takes longer than `stop_timeout`."""
    job = expect(announced(executing(2, free=2)).when_prepared().after(3600), "Restarting", CORDONED)
    assert killed(job) == []
    return job


def test_batch_of_a_driver_that_leaves_has_no_time_limit_until_others_kill_it() -> None:
    job = leaving().when_driver_ended()
    expect(job.when_slots(free=2), "Deploying", "the driver ended before it had stopped")


def test_driver_that_leaves_and_writes_no_status_is_killed() -> None:
    job = leaving()
    job.when(DriverHeartbeatTimedOut(at=job.now, epoch=1, failure=TRANSIENT))
    assert killed(job.after(60)) == [1, 1]


@pytest.mark.parametrize("request_", ["when_canceled", "when_redeployed", "when_suspended"])
def test_user_limits_the_batch_of_a_driver_that_leaves(request_: str) -> None:
    job = leaving()
    getattr(job, request_)()
    assert 1 not in killed(job)
    assert 1 in killed(job.after(60))


def test_suspension_ends_no_batch_of_a_driver_that_leaves() -> None:
    job = leaving().when_suspended().when_savepoint_completed().when_driver_ended()
    expect(job, "Finished", "the driver has ended: stopped at a batch boundary")
    assert 1 not in killed(job)


def test_driver_that_will_have_to_leave_stays_while_no_other_one_can_be_prepared() -> None:
    job = fails(announced(executing(free=2)), NO_ROOM)
    expect(job, "Executing", NO_ROOM.message)
    expect(job.after(FIRST_RETRY.total_seconds()).when_prepared(), "Restarting", CORDONED)


@pytest.mark.parametrize(("mode", "epochs"), [("none", [2]), ("driver", [])])
def test_driver_that_may_stay_after_all_needs_no_other_one_to_move(mode: str, epochs: list[int]) -> None:
    job = announced(executing(free=2, standby=mode))
    job.when(MoveAnnounced(at=job.now, epoch=1, reason=""))
    expect(job, "Executing", "the driver may stay")
    assert killed(job) == epochs


def test_standby_that_has_taken_over_ends_the_backoff() -> None:
    job = fails(executing(standby="driver")).after(FIRST_RETRY.total_seconds()).when_prepared()
    job.when_driver_ended().when_slots(free=2).when_slots(held=2).when_plan_activated().when_committed()
    assert fails(job).state.standby.retry_at == job.now + FIRST_RETRY


def test_announcement_about_a_driver_that_has_ended_is_no_event() -> None:
    job = announced(executing().when_driver_ended())
    assert job.state.driver is None
