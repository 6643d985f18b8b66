"""Jobs in every state, each reached by a life that leads there: what the tables of states and events are run on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_adaptive._core.scheduler.events import MoveAnnounced
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from tests.lab.scenario import HOPELESS, Scenario

NO_WAIT: Mapping[str, Any] = {
    "scaling_interval_min": 0,
    "executing_stabilization_timeout": 0,
    "max_trigger_delay": 0,
}
NO_RESTART: Mapping[str, Any] = {"restart_strategy": "none"}


def waiting_with_driver() -> Scenario:
    """A query failed, the driver holds what it has, which is less than desired."""
    return Scenario().given_executing(2).when_query_failed().after(2)


def deploying_again(**options: Any) -> Scenario:
    """The running driver was handed another plan."""
    return Scenario(**{**NO_WAIT, **options}).given_executing(2).when_slots(held=2, free=2)


def partly_deployed() -> Scenario:
    return Scenario().given_deploying(4).when_slots(held=2, free=2).when_plan_activated()


def stabilized() -> Scenario:
    """More slots are there, and the next committed batch decides."""
    waits: Mapping[str, Any] = {
        "scaling_interval_min": 0,
        "executing_stabilization_timeout": 0,
        "max_trigger_delay": 60,
    }
    return Scenario(lower=1, upper=8, **waits).given_executing(2).when_slots(held=2, free=1)


def worth_only_a_forced_rescale() -> Scenario:
    options: Mapping[str, Any] = {"min_parallelism_increase": 3, "scaling_interval_min": 0, "scaling_interval_max": 60}
    return Scenario(lower=1, upper=8, **options).given_executing(2).when_slots(held=2, free=1)


def not_stopped_and_short_of_slots() -> Scenario:
    """The stop failed, and the loss of slots in the meantime is seen only now."""
    return Scenario().given_executing(4).when_suspended().when_slots(held=2, free=2)


def lost_slots_unseen() -> Scenario:
    scenario = not_stopped_and_short_of_slots()
    return scenario.apply_without_timers(scenario.savepoint_failed())


def below_the_bound_unseen() -> Scenario:
    """The lower bound was raised while the plan was deployed."""
    scenario = Scenario().given_deploying(2).when_requirements(3, 4).when_slots(held=2)
    return scenario.apply_without_timers(scenario.plan_activated())


def stopping_with_failure() -> Scenario:
    return Scenario().given_executing(2).when_suspended().when_query_failed()


def stopping_hopelessly() -> Scenario:
    return Scenario().given_executing(2).when_suspended().when_query_failed(HOPELESS)


def rescaling() -> Scenario:
    """On the way to another plan; nothing that is due has happened yet."""
    scenario = Scenario(**NO_WAIT).given_executing(2)
    return scenario.apply_without_timers(scenario.slots(held=2, free=2))


def rescaling_above_the_highest_tier() -> Scenario:
    """A redeployment no longer allows the tier of the rescale."""
    scenario = rescaling()
    scenario.state = replace(
        scenario.state, options=replace(scenario.state.options, highest_rescale_tier=Tier.EXECUTORS)
    )
    return scenario


def waiting_for_the_target() -> Scenario:
    """The slots of the target are gone again."""
    scenario = rescaling()
    return scenario.apply_without_timers(scenario.slots(held=2))


def executors_to_come(**options: Any) -> Scenario:
    """Only executors are missing; what was due in the meantime has not happened yet."""
    waits = {"scaling_interval_min": 30, "highest_rescale_tier": 0}
    scenario = Scenario(**{**waits, **options}).given_script().given_executing(2).when_slots(held=2, free=2)
    scenario.now += timedelta(hours=1)
    return scenario


def rescaling_beside_the_query(**options: Any) -> Scenario:
    """Executors are added or given back while the query runs on."""
    return Scenario(**{**NO_WAIT, **options}).given_script().given_executing(2).when_slots(held=2, free=2)


def rescaled_beside_the_query() -> Scenario:
    return rescaling_beside_the_query().when_slots(held=4).when_plan_activated()


def too_few_slots_beside_the_query() -> Scenario:
    """Of four slots two are left and a third may come; nothing has followed yet."""
    scenario = rescaled_beside_the_query()
    return scenario.apply_without_timers(scenario.slots(held=2, free=1))


def leaving_soon() -> Scenario:
    """The driver will have to leave its machine, and another one is being prepared."""
    job = Scenario(upper=1, **NO_WAIT).given_executing(1).when_slots(held=1, standby=(0, 1)).when_committed()
    return job.when(MoveAnnounced(at=job.now, epoch=1, reason="its node was cordoned"))


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "created": Scenario,
    "waiting for anything": lambda: Scenario().given_waiting(),
    "waiting for more": lambda: Scenario().given_waiting(free=2),
    "waiting with a driver": waiting_with_driver,
    "deploying": lambda: Scenario().given_deploying(2),
    "deploying below the lower bounds": lambda: Scenario().given_deploying(2).when_requirements(3, 4),
    "deploying, no restarts": lambda: Scenario(**NO_RESTART).given_deploying(2),
    "deploying again": deploying_again,
    "deploying again, no restarts": lambda: deploying_again(**NO_RESTART, highest_rescale_tier=1).when_slots(held=4),
    "executors to come": executors_to_come,
    "rescaling beside the query": rescaling_beside_the_query,
    "slots lost beside the query": lambda: rescaled_beside_the_query().when_slots(held=2, free=2),
    "too few slots beside the query": too_few_slots_beside_the_query,
    "partly deployed": partly_deployed,
    "executing": lambda: Scenario(**NO_WAIT).given_executing(2),
    "executing, deployment not prepared": lambda: (
        Scenario(**NO_WAIT, prepare_deployments=False).given_script().given_executing(2)
    ),
    "executing, deployment in preparation": lambda: Scenario(**NO_WAIT).given_executing(2).when_redeployed("new"),
    "executing beside a standby": lambda: Scenario(**NO_WAIT, standby="driver").given_standby(),
    "stabilized": stabilized,
    "worth only a forced rescale": worth_only_a_forced_rescale,
    "lost slots unseen": lost_slots_unseen,
    "below the bound unseen": below_the_bound_unseen,
    "restarting locally": lambda: Scenario().given_executing(4).when_slots(held=2, free=2),
    "restarting after a failure": lambda: Scenario().given_executing(2).when_query_failed(),
    "restarting, driver gone": lambda: Scenario().given_executing(2).when_driver_ended(),
    "restarting, heartbeat timed out": lambda: Scenario().given_executing(2).when_driver_silent(),
    "restarting, driver leaves": lambda: leaving_soon().when_prepared(),
    "rescaling": rescaling,
    "rescaling above the highest tier": rescaling_above_the_highest_tier,
    "waiting for the target": waiting_for_the_target,
    "stopping": lambda: Scenario().given_executing(2).when_suspended(),
    "stopping with a failure": stopping_with_failure,
    "stopping with a hopeless failure": stopping_hopelessly,
    "stopped, driver not gone": lambda: Scenario().given_executing(2).when_suspended().when_savepoint_completed(),
    "canceling": lambda: Scenario().given_executing(2).when_canceled(),
    "failing": lambda: Scenario().given_executing(2).when_query_failed(HOPELESS),
    "finished": lambda: Scenario().when_canceled(),
    "finished, driver not gone": lambda: Scenario().given_deploying(2).when_canceled(),
}
