"""The place of a job in Airflow's stores."""

from __future__ import annotations

from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.job_asset import JobAsset, job_asset, job_name
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._airflow.store.task_xcoms import push
from airflow_adaptive._core.view import TaskKey
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import FakeComms
from tests.unit._airflow.store.test_asset_store import VIEW, access, airflow, clock, show  # noqa: F401  fixtures


def test_job_of_a_task_has_an_asset_of_its_own() -> None:
    name = job_name("departures", TaskKey(dag_id="flights", task_id="stream", run_id="r"))
    assert (name, job_asset(name)) == ("departures", JobAsset("adaptive://job/departures"))


def test_job_of_a_mapped_task_has_keys_in_the_asset_of_its_fleet() -> None:
    name = job_name("departures", TaskKey(dag_id="flights", task_id="stream", run_id="r", map_index=0))
    assert name == "flights:stream:departures"
    assert job_asset(name) == JobAsset("adaptive://fleet/flights/stream", "departures:")


def test_key_of_a_task_instance_is_readable() -> None:
    """Messages name a task instance, and the attempt of a job begins with its key, so mapped task instances differ."""
    assert str(TaskKey(dag_id="flights", task_id="stream", run_id="r")) == "flights/stream/r"
    assert str(TaskKey(dag_id="flights", task_id="stream", run_id="r", map_index=0)) == "flights/stream[0]/r"


def test_job_of_a_fleet_has_keys_and_xcoms_of_its_own(
    airflow: FakeComms,  # noqa: F811
    clock: ManualClock,  # noqa: F811
    access: StoreAccess,  # noqa: F811
) -> None:
    mapped = TaskKey(dag_id="d", task_id="t", run_id="r", map_index=3)
    show(AirflowJobStore(job_name("departures", mapped), mapped, clock, access), VIEW)
    assert airflow.assets == {"adaptive://fleet/d/t"}
    assert airflow.asset_states["departures:summary"]["state"] == "Executing"
    assert {key.partition(":")[0] for key in airflow.asset_states} == {"departures"}
    assert airflow.map_indexes == {3}


def test_job_that_left_its_list_leaves_its_xcoms_to_its_successor(
    airflow: FakeComms,  # noqa: F811
    clock: ManualClock,  # noqa: F811
    access: StoreAccess,  # noqa: F811
) -> None:
    mapped = TaskKey(dag_id="d", task_id="t", run_id="r", map_index=3)
    push(mapped, "attempt", "the attempt of another job")
    show(AirflowJobStore("d:t:departures", mapped, clock, access), VIEW)
    assert airflow.asset_states["departures:summary"]["state"] == "Executing"
    assert airflow.xcoms == {"attempt": "the attempt of another job"}
