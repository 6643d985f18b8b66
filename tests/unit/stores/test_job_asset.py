"""The place of a job in Airflow's stores."""

from __future__ import annotations

from airflow_adaptive.stores.job_asset import JobAsset, job_asset, job_name
from airflow_adaptive.stores.task_xcoms import TaskKey


def test_job_of_a_task_has_an_asset_of_its_own() -> None:
    name = job_name("departures", TaskKey(dag_id="flights", task_id="stream", run_id="r"))
    assert (name, job_asset(name)) == ("departures", JobAsset("adaptive://job/departures"))


def test_job_of_a_mapped_task_has_keys_in_the_asset_of_its_fleet() -> None:
    name = job_name("departures", TaskKey(dag_id="flights", task_id="stream", run_id="r", map_index=0))
    assert name == "flights:stream:departures"
    assert job_asset(name) == JobAsset("adaptive://fleet/flights/stream", "departures:")
