"""What OpenLineage learns of a job, through Airflow's own provider."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk import Asset
from airflow.utils.state import TaskInstanceState
from openlineage.client.serde import Serde

from airflow_adaptive._airflow.declaration.lineage import FACET
from airflow_adaptive._airflow.internals import AirflowException
from airflow_adaptive._airflow.process.loop_events import finished_event
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from tests.lab.scenario import Scenario
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.operator_fakes import FakeInstance
from tests.support.repository import ROOT

CONTEXT: Any = {"ti": FakeInstance(try_number=1, max_tries=1)}
FINISHED = {
    "status": "finished",
    "outcome": "FINISHED",
    "cause": None,
    "recoverable": True,
    "timed_out": False,
    "restarts": 2,
    "rescales": 3,
    "parallelism": {"job": 4},
}
FAILED = FINISHED | {"outcome": "FAILED", "cause": "STREAM_FAILED: no such column"}
STARTED = {"job": "departures", "jobType": "STREAMING", "bounds": {"job": {"lower": 1, "upper": 4}}}
NOT_ENDED = dict.fromkeys(("parallelism", "restarts", "rescales", "outcome"))


@pytest.fixture(autouse=True)
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


def job(**changes: Any) -> AdaptiveSparkOperator:
    arguments = {
        "task_id": "stream",
        "job": "departures",
        "application": "/jobs/departures.py",
        "job_directory": "file:///jobs",
        "parallelism": (1, 4),
        "conf": {"spark.my.setting": "not for others"},
    }
    return AdaptiveSparkOperator(**(arguments | changes))


def lineage_of(operator: AdaptiveSparkOperator, state: TaskInstanceState) -> OperatorLineage[Any, Any]:
    """The facets that the operator returns to the provider."""
    run: Any = SimpleNamespace(run_id="manual")
    return ExtractorManager().extract_metadata(run, operator, state, SimpleNamespace(task=operator))


def facets(operator: AdaptiveSparkOperator, state: TaskInstanceState) -> dict[str, Any]:
    """The facets as they are sent, without those fields that every facet has."""
    sent = {name: json.loads(Serde.to_json(facet)) for name, facet in lineage_of(operator, state).run_facets.items()}
    return {
        name: {key: value for key, value in facet.items() if not key.startswith("_")} for name, facet in sent.items()
    }


def test_bounds_are_reported_at_the_start() -> None:
    emitted = facets(job(), TaskInstanceState.RUNNING)
    assert emitted == {
        "adaptive_job": {key: value for key, value in (STARTED | NOT_ENDED).items() if value is not None}
    }


def test_end_is_reported_with_what_led_to_it() -> None:
    operator = job()
    operator.execute_complete(CONTEXT, FINISHED)
    ended = {"parallelism": {"job": 4}, "restarts": 2, "rescales": 3, "outcome": "FINISHED"}
    assert facets(operator, TaskInstanceState.SUCCESS) == {FACET: STARTED | ended}


def test_failure_is_reported_with_its_cause() -> None:
    operator = job()
    with pytest.raises(AirflowException):
        operator.execute_complete(CONTEXT, FAILED)
    emitted = facets(operator, TaskInstanceState.FAILED)
    assert emitted[FACET]["outcome"] == "FAILED"
    assert emitted["errorMessage"]["message"] == "STREAM_FAILED: no such column"


def test_loop_that_could_not_go_on_reports_why() -> None:
    operator = job()
    with pytest.raises(AirflowException):
        operator.execute_complete(CONTEXT, {"status": "error", "message": "the directory is away", "driver": None})
    emitted = facets(operator, TaskInstanceState.FAILED)
    assert "outcome" not in emitted[FACET]
    assert emitted["errorMessage"]["message"] == "the directory is away"


def test_job_whose_declaration_is_refused_is_reported_without_bounds() -> None:
    operator = job(parallelism="{{ bounds }}")
    operator.parallelism = "1-4"  # as a template renders it
    assert facets(operator, TaskInstanceState.FAILED)[FACET] == STARTED | {"bounds": {}}


def test_batch_is_reported_as_such() -> None:
    assert facets(job(job_type="batch"), TaskInstanceState.RUNNING)[FACET] == STARTED | {"jobType": "BATCH"}


def test_inlets_and_outlets_that_the_task_names_stay_its_datasets() -> None:
    operator = job(inlets=[Asset("file:///data/flights")], outlets=Asset("file:///data/departures"))
    emitted = lineage_of(operator, TaskInstanceState.RUNNING)
    assert [(dataset.namespace, dataset.name) for dataset in emitted.inputs] == [("file", "/data/flights")]
    assert [(dataset.namespace, dataset.name) for dataset in emitted.outputs] == [("file", "/data/departures")]


def test_nothing_else_of_the_declaration_is_reported() -> None:
    assert "not for others" not in Serde.to_json(lineage_of(job(), TaskInstanceState.RUNNING).run_facets[FACET])


def test_event_of_a_finished_loop_has_the_parallelism_that_was_active_last() -> None:
    ended = Scenario(resource_stabilization_timeout=0).given_executing(2).when_completed()
    assert isinstance(ended.state.current, Finished)
    assert finished_event(ended.state, ended.state.current, None, None)["parallelism"] == {"job": 2}


@pytest.mark.long
def test_operator_does_without_the_provider() -> None:
    code = (
        "import sys; sys.modules |= {'openlineage': None, 'airflow.providers.openlineage.extractors': None}; "
        "from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator as O; "
        "O(task_id='t', job='j', application='a', job_directory='file:///d', parallelism=1); print('made')"
    )
    root = ROOT
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip().splitlines()[-1] == "made"
