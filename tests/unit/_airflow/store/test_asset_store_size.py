"""All that a job shows fits into what the smallest XCom backends take, however wide and however unlucky it is."""

import json

import pytest

from airflow_adaptive._airflow.store.task_xcoms import xcoms
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import Urls
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.scenario import Scenario
from tests.support.airflow.published_documents import history

MOST_BYTES = 64 << 10
"""What Airflow 3.3 lets an asset's state have, and MySQL a TEXT."""

LONG_URL = "http://worker.example.org/" + "u" * 200


def failure(number: int) -> Failure:
    return Failure(error_class=f"Error{number}", message="m" * 9000, causes=("c" * 200,) * 20)


def unlucky(vertices: int) -> Scenario:
    """A job of many vertices with long names: required of this and that, failing and failing again."""
    bounds = ParallelismRange(1, 1000)
    names = [f"{number:03}-{'ü' * 10}{'v' * 46}" for number in range(vertices)]
    graph = JobGraph(
        job="job",
        vertices=tuple(JobVertex(name=name, parallelism=bounds, slot_sharing_group=f"of {name}") for name in names),
    )
    job = Scenario(graph=graph, failure_history_size=16, resource_stabilization_timeout=0)
    job.given_executing(2 * vertices)
    for upper in range(2, 26):
        job.when_requirements(1, upper)
    for number in range(20):
        job.when_query_failed(failure(number))
        for other in range(20):
            job.when_query_failed(failure(100 + other))
        job.after(100).when_plan_activated()
    return job


@pytest.mark.parametrize("vertices", [1, 10, 50, 100])
def test_all_that_a_job_shows_is_small(vertices: int) -> None:
    job = unlucky(vertices)
    urls = Urls(**dict.fromkeys(Urls.__dataclass_fields__, LONG_URL))
    published = xcoms(job_view(job.state, history(job), urls, "attempt"))
    assert all(published[key] for key in ("parallelism", "transitions", "failures", "decisions"))
    assert len(published["rescales"]["history"]) >= 3
    assert sum(len(json.dumps(value)) for value in published.values()) < MOST_BYTES
