"""Each job and each fleet has an Asset of its own, whose events Airflow knows."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, Asset, task

from airflow_adaptive._airflow.declaration.job_assets import assets_of_task
from airflow_adaptive.operators import AdaptiveSparkOperator

SHARED: dict[str, Any] = {
    "task_id": "stream",
    "application": "/job.py",
    "job_directory": "file:///jobs",
    "parallelism": 2,
}
FLEET = Asset("adaptive://fleet/flights/stream")


def fleet(**changes: Any) -> Any:
    return AdaptiveSparkOperator.partial(**SHARED | changes)


def own(job: str) -> Asset:
    return Asset(f"adaptive://job/{job}")


def test_job_of_a_task_has_an_asset_of_its_own() -> None:
    raw = Asset("raw")
    assert assets_of_task("departures", raw, None) == ([raw, own("departures")], [own("departures")])


def test_name_of_the_asset_is_its_uri() -> None:
    assert own("departures").uri == own("departures").name


def test_mapped_task_has_one_asset_and_names_the_jobs_of_a_literal_list() -> None:
    with DAG("flights", schedule=None):
        mapped = fleet(outlets=Asset("out")).expand(job=["a", "b", "no id!"])
    assert mapped.inlets == [FLEET, own("flights:stream:a"), own("flights:stream:b")]
    assert mapped.outlets == [Asset("out"), FLEET]


def test_items_of_expand_kwargs_name_their_jobs() -> None:
    with DAG("flights", schedule=None):
        mapped = fleet().expand_kwargs([{"job": "a", "priority": 2}, {"job": "b"}])
    assert mapped.inlets == [FLEET, own("flights:stream:a"), own("flights:stream:b")]
    assert mapped.unmap({"job": "a", "priority": 2}).priority == 2


def test_job_emits_events_of_the_fleet_and_of_its_own_known_asset() -> None:
    with DAG("flights", schedule=None):
        mapped = fleet().expand(job=["a"])
    assert mapped.unmap({"job": "a"}).outlets == [FLEET, own("flights:stream:a")]
    assert mapped.unmap({"job": "late"}).outlets == [FLEET]


def test_jobs_of_another_task_share_the_asset_of_the_fleet() -> None:
    with DAG("flights", schedule=None):

        @task
        def jobs() -> list[dict[str, str]]:
            return [{"job": "a"}]

        mapped = fleet().expand_kwargs(jobs())
    assert mapped.inlets == mapped.outlets == [FLEET]


def test_options_and_flinks_names_are_shared() -> None:
    with DAG("flights", schedule=None):
        mapped = fleet(stop_timeout="3 s", **{"restart-strategy.type": "none"}).expand(job=["a"])
    assert mapped.unmap({"job": "a"}).options == {"stop_timeout": "3 s", "restart-strategy.type": "none"}


@pytest.mark.parametrize(
    ("shared", "mapped", "error"),
    [
        ({"job": "a"}, {"application_args": [["x"]]}, "mapped task 'stream' must give each item a job of its own"),
        ({"job": "a"}, {"job": ["b"]}, "must give each item a job of its own"),
        ({}, {"application_args": [["x"]]}, "must give each item a job of its own"),
        ({}, {"job": ["a", "b", "a"]}, "more than once: a"),
    ],
)
def test_items_that_would_run_the_same_job_are_refused(
    shared: dict[str, Any], mapped: dict[str, Any], error: str
) -> None:
    with DAG("flights", schedule=None), pytest.raises(ValueError, match=error):
        fleet(**shared).expand(**mapped)


def test_mapped_task_outside_of_a_dag_is_refused() -> None:
    with pytest.raises(ValueError, match="must be in a DAG"):
        fleet().expand(job=["a"])


def test_fleets_with_equal_items_have_no_asset_in_common() -> None:
    with DAG("flights", schedule=None):
        one, other = fleet().expand(job=["a"]), fleet(task_id="other").expand(job=["a"])
        single = AdaptiveSparkOperator(**SHARED | {"task_id": "single"}, job="a")
    assets = [{asset.name for asset in task.inlets} for task in (one, other, single)]
    assert not assets[0] & assets[1] | assets[0] & assets[2] | assets[1] & assets[2]
    assert Asset("adaptive://job/flights:stream:a").uri == "adaptive://job/flights:stream:a"


def test_second_task_of_a_dag_with_the_same_job_is_refused() -> None:
    with DAG("flights", schedule=None):
        AdaptiveSparkOperator(**SHARED, job="a")
        with pytest.raises(ValueError, match="tasks 'stream' and 'other' of DAG 'flights' run the same job 'a'"):
            AdaptiveSparkOperator(**SHARED | {"task_id": "other"}, job="a")


def test_tasks_of_several_dags_may_have_the_same_id() -> None:
    """Only the first task that runs the job owns the job. A DAG file cannot know the other DAG files."""
    for dag_id in ("flights", "copies"):
        with DAG(dag_id, schedule=None):
            AdaptiveSparkOperator(**SHARED, job="a")


def test_fleet_without_bounds_is_refused() -> None:
    shared = {name: value for name, value in SHARED.items() if name != "parallelism"}
    with DAG("flights", schedule=None), pytest.raises(ValueError, match="mapped task 'stream' needs 'parallelism'"):
        AdaptiveSparkOperator.partial(**shared).expand(job=["a", "b"])
