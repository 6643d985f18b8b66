"""The tests run on the database that the option --database selects. Jobs run on an Airflow with several processes of each component."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.integration.airflow.conftest import SCRIPT, spark_connection  # noqa: F401  a fixture
from tests.support.databases.fixtures import SQLITE
from tests.support.databases.postgresql import PostgresqlServer
from tests.support.databases.redis_server import RedisServer
from tests.support.databases.replicas import ReplicatedAirflow

EXECUTORS = {
    "replicated": "LocalExecutor",
    "distributed": "CeleryExecutor",
    "crashed": "CeleryExecutor",
    "frozen": "LocalExecutor",
    "failed_over": "LocalExecutor",
    "kept": "LocalExecutor",
    "cleared": "LocalExecutor",
    "ended": "LocalExecutor",
    "later": "LocalExecutor",
    "upgraded": "LocalExecutor",
}
"""Job -> executor of its task."""

FLEET = tuple(f"flight_{number:02d}" for number in range(50))
"""Jobs of the mapped task."""

DAGS = dedent(
    """
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    with DAG("fleet", schedule=None):
        AdaptiveSparkOperator.partial(
            task_id="job",
            application="{directory}/script.py",
            job_directory="file://{directory}/jobs",
            parallelism=(1, 2),
            driver_memory="512m",
            executor_memory="512m",
            resource_wait_timeout="-1 s",
            resource_stabilization_timeout="1 s",
        ).expand_kwargs(
            [{{"job": job, "application_args": ["{directory}/" + job, "bounded"]}} for job in {fleet}]
        )

    for job, executor in {executors}.items():
        with DAG(job, schedule=None):
            AdaptiveSparkOperator(
                task_id="job",
                job=job,
                application="{directory}/script.py",
                application_args=["{directory}/" + job, "endless"],
                job_directory="file://{directory}/jobs",
                parallelism=(1, 2),
                max_parallelism=1000,
                driver_memory="512m",
                executor_memory="512m",
                resource_stabilization_timeout="1 s",
                scaling_interval_min="2 s",
                executing_stabilization_timeout="1 s",
                max_trigger_delay="3 s",
                stop_timeout="8 s",
                executor=executor,
            )
    """
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a real database, run none of these tests. Pytest counts them as deselected."""
    if config.getoption("database") != SQLITE:
        return
    deselected = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the script, the DAGs, and the input of each job."""
    directory = tmp_path_factory.mktemp("playground")
    (directory / "dags").mkdir()
    (directory / "script.py").write_text(SCRIPT)
    (directory / "dags" / "jobs.py").write_text(DAGS.format(directory=directory, executors=EXECUTORS, fleet=FLEET))
    for job in (*EXECUTORS, *FLEET):
        (directory / job / "input").mkdir(parents=True)
        (directory / job / "input" / "lines.txt").write_text("one\ntwo\nthree\n")
    return directory


@pytest.fixture(scope="session")
def running_airflow(
    playground: Path,
    postgresql: PostgresqlServer,
    redis: RedisServer,
    spark_connection: dict[str, str],  # noqa: F811
) -> Iterator[ReplicatedAirflow]:
    """One Airflow for all tests of a session."""
    with ReplicatedAirflow(
        playground / "airflow", playground / "dags", postgresql, redis, env=spark_connection
    ) as airflow:
        yield airflow


@pytest.fixture
def airflow(running_airflow: ReplicatedAirflow) -> ReplicatedAirflow:
    """The Airflow of the session, with all of its replicas."""
    running_airflow.restore()
    return running_airflow
