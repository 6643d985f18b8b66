"""The directive of the driver, derived from the scheduler's state."""

from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.directive import directive, executors
from airflow_adaptive._engine.spec import ExecutorShape
from tests.lab.scenario import Scenario

NONCE = "n"


def offer(worker: str, held: int, free: int = 0) -> SlotOffer:
    return SlotOffer(worker=worker, held=held, free=free, address=f"http://{worker}:8081")


def shrunk(*offers: SlotOffer, **options) -> Scenario:
    """A job of four slots that were just told to be two."""
    held = sum(o.held for o in offers)
    scenario = Scenario(upper=held, scaling_interval_min=0, max_trigger_delay=0, **options).given_executing(held)
    return scenario.when(SlotsChanged(at=scenario.now, offers=offers)).when_requirements(1, 2).when_committed()


def plan_of(scenario: Scenario, executor: ExecutorShape | None = None):
    plan = directive(scenario.state, NONCE, executor or ExecutorShape()).plan
    assert plan is not None
    return plan


def test_executors_give_at_least_the_slots():
    assert [executors(slots, ExecutorShape(cores=2)) for slots in (1, 2, 3)] == [1, 1, 2]


def test_idle_executors_are_held_until_their_time_is_up():
    scenario = shrunk(offer("a", 3), offer("b", 1))
    plan = plan_of(scenario)
    assert (plan.executors, plan.retained_executors, plan.remaining_per_worker) == (2, 4, {})
    scenario.when_plan_activated().after(50)
    plan = plan_of(scenario)
    assert (plan.executors, plan.retained_executors) == (2, 2)
    assert plan.remaining_per_worker == {"http://a:8081": 2, "http://b:8081": 0}


def test_balanced_job_keeps_executors_on_all_workers():
    plan = plan_of(shrunk(offer("a", 3), offer("b", 1), slot_idle_timeout=0, load_balance_mode="tasks"))
    assert plan.load_balance_mode == "tasks"
    assert plan.remaining_per_worker == {"http://a:8081": 1, "http://b:8081": 1}


def test_job_that_has_what_it_needs_gives_nothing_back():
    scenario = Scenario(upper=2).given_executing(2)
    assert plan_of(scenario).remaining_per_worker == {}
    assert plan_of(scenario).retained_executors == 2


def test_executors_of_several_cores_are_counted_whole():
    scenario = shrunk(offer("a", 2), offer("b", 2), slot_idle_timeout=0)
    plan = plan_of(scenario, ExecutorShape(cores=2))
    assert (plan.executors, plan.remaining_per_worker) == (1, {"http://a:8081": 1, "http://b:8081": 0})


def test_query_without_state_gets_shuffles_for_all_slots_that_it_can_use():
    bounds = ParallelismRange(1, 4)
    stateless = JobVertex(name="parse", parallelism=bounds, stateful=False, slot_sharing_group="raw")
    counted = JobVertex(name="count", parallelism=bounds, max_parallelism=6)
    scenario = Scenario(graph=JobGraph(job="j", vertices=(stateless, counted))).given_executing(3)
    assert plan_of(scenario).state_partitions == {"raw": 4, "default": 6}
