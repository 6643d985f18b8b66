"""Preview of a deployment: what the newest DAG in Airflow's database, and what the staged deployment change, compared with what runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_adaptive._core.codec import encode_plain
from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.protocol.documents import PreparedQuery, QueryReport, StateSchema
from airflow_adaptive._core.scheduler.events import DriverEnded
from airflow_adaptive._web.api.job_details import query_previews
from tests.lab.scenario import HOPELESS
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.deployments import deployed, store_dag
from tests.support.airflow.published_documents import executing, place
from tests.support.airflow.rest_api import get

PATH = "/jobs/departures/deployment"
BEFORE = "not known before the deployment is prepared"
WITHOUT = "not known: it takes effect without a preparation"


def test_dag_that_was_not_changed_declares_nothing(airflow_app: AirflowApp, tmp_path: Path) -> None:
    place(airflow_app, executing(), **deployed(store_dag(airflow_app, tmp_path)))
    found = get(airflow_app, PATH)
    assert (found["pending"], found["declared"]) == (None, None)
    assert found["notice"].startswith("The task compares the script")


def test_changed_dag_is_compared_before_the_task_stages_it(airflow_app: AirflowApp, tmp_path: Path) -> None:
    place(airflow_app, executing(), **deployed(store_dag(airflow_app, tmp_path)))
    conf = {"a": "{{ ds }}", "my.password": "1"}
    store_dag(airflow_app, tmp_path, parallelism=(1, 8), executor_memory="2g", conf=conf)
    found = get(airflow_app, PATH)
    declared = found["declared"]
    assert found["pending"] is None
    assert (declared["stage"], declared["effect"]) == ("PREPARING", "DRIVER")
    assert {(it["name"], str(it["before"]), str(it["after"]), it["effect"]) for it in declared["changes"]} == {
        ("conf[a]", "None", "{{ ds }}", "DRIVER"),
        ("conf[my.password]", "None", "***", "DRIVER"),
        ("parallelism", "[1, 4]", "[1, 8]", "AT_ONCE"),
        ("executor_memory", "1g", "2g", "DRIVER"),
    }
    assert declared["unknown"] == ["code", "job_graph", "options", "priority"]
    assert "if no worker has room for both, the running driver ends first" in declared["reason"]


def test_dag_file_that_has_changed_may_declare_other_code(airflow_app: AirflowApp, tmp_path: Path) -> None:
    place(airflow_app, executing(), **deployed(store_dag(airflow_app, tmp_path)))
    store_dag(airflow_app, tmp_path, doc="other")
    declared = get(airflow_app, PATH)["declared"]
    assert (declared["changes"], declared["effect"], declared["unknown"][0]) == ([], None, "code")


def test_dag_file_that_the_task_cannot_read_declares_nothing(airflow_app: AirflowApp, tmp_path: Path) -> None:
    place(airflow_app, executing(), **deployed(replace(store_dag(airflow_app, tmp_path), dag_file="")))
    assert get(airflow_app, PATH)["declared"] is None


@pytest.mark.parametrize(
    ("options", "stage", "reason", "state"),
    [
        ({}, "PREPARING", "a driver of the deployment is prepared beside the running one", BEFORE),
        ({"prepare_deployments": False}, "ENDS_FIRST", "before the driver of the deployment starts", WITHOUT),
        ({"highest_rescale_tier": 2}, "NEXT_START", "highest_rescale_tier is below 3", WITHOUT),
    ],
)
def test_staged_deployment_is_compared_with_the_running_driver(
    airflow_app: AirflowApp, tmp_path: Path, options: dict[str, Any], stage: str, reason: str, state: str
) -> None:
    running = store_dag(airflow_app, tmp_path)
    newest = store_dag(airflow_app, tmp_path, code="2", application_args=["--all"])
    place(airflow_app, executing(**options).when_redeployed("new"), **deployed(running, newest))
    found = get(airflow_app, PATH)
    pending = found["pending"]
    assert (pending["stage"], pending["effect"], pending["unknown"], found["declared"]) == (stage, "DRIVER", [], None)
    assert [(it["name"], it["after"]) for it in pending["changes"]] == [
        ("code", "2" * 12),
        ("application_args", ["--all"]),
    ]
    assert reason in pending["reason"]
    assert (pending["keeps_state"], pending["state_reason"]) == (None, state)


def prepared(**report: Any) -> PreparedQuery:
    return PreparedQuery(name="q", **report)


RAN = QueryReport(name="q", active=True, sources=(), plan=("Aggregate", "StreamingRelation", "output id bigint"))
COUNT = StateSchema(operator="stateStoreSave", key="id bigint", value="count bigint", partitions=4)
OTHER = "its state remains in its checkpoint, and a query of another name does not read it"


@pytest.mark.parametrize(
    ("new", "ran", "reason", "plan"),
    [
        (
            prepared(state_before=(COUNT,), state_after=(COUNT,), plan=("Project", *RAN.plan)),
            RAN,
            "Spark has accepted the state in its checkpoint",
            ["+Project", " Aggregate"],
        ),
        (
            prepared(state_after=(COUNT,), plan=("Aggregate",)),
            None,
            "it starts without state: its checkpoint has none",
            ["+Aggregate"],
        ),
        (prepared(plan=RAN.plan), RAN, "it has no state", []),
        (prepared(unchecked="time", state_before=(COUNT,)), RAN, "time", None),
        (prepared(plan=RAN.plan), replace(RAN, plan=()), "it has no state", None),
        (replace(prepared(), name="renamed"), RAN, OTHER, None),
    ],
)
def test_query_of_a_prepared_driver_is_compared_with_the_running_one(
    new: PreparedQuery, ran: QueryReport | None, reason: str, plan: list[str] | None
) -> None:
    found = query_previews([new], [] if ran is None else [ran])[-1]
    assert (found.state_reason, found.plan_changes) == (reason, plan)
    assert (found.is_new, found.prepared) == (ran is None, new if new.name == "q" else None)


def test_prepared_driver_reports_its_queries_and_whether_they_keep_the_state(
    airflow_app: AirflowApp, tmp_path: Path
) -> None:
    running = store_dag(airflow_app, tmp_path)
    hours = PreparedQuery(name="hours", sources=("KafkaV2",), state_after=(COUNT,), plan=("Aggregate",))
    documents = deployed(running, running)
    documents["deployment"]["preparation"] = encode_plain(Preparation(deployment="new", queries=(hours,)))
    job = executing(scaling_interval_min=600).when_slots(held=2, standby=(0, 1)).when_redeployed("new")
    place(airflow_app, job.when_committed().when_prepared(), **documents)
    pending = get(airflow_app, PATH)["pending"]
    assert (pending["stage"], pending["keeps_state"]) == ("PREPARED", True)
    assert pending["reason"].startswith("the driver of the deployment is prepared")
    new, removed = pending["queries"]
    assert (new["prepared"], new["plan_changes"]) == (encode_plain(hours), ["+Aggregate"])
    assert (removed["name"], removed["prepared"]) == ("q", None)


def test_preparation_of_another_deployment_does_not_count(airflow_app: AirflowApp, tmp_path: Path) -> None:
    running = store_dag(airflow_app, tmp_path)
    documents = deployed(running, running)
    documents["deployment"]["preparation"] = encode_plain(Preparation(deployment="other"))
    place(airflow_app, executing().when_redeployed("new"), **documents)
    pending = get(airflow_app, PATH)["pending"]
    assert (pending["keeps_state"], pending["queries"]) == (None, [])
    assert pending["state_reason"] == BEFORE


def test_refused_deployment_has_the_error_of_its_preparation(airflow_app: AirflowApp, tmp_path: Path) -> None:
    running = store_dag(airflow_app, tmp_path)
    job = executing(scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.when_slots(held=2, standby=(0, 1)).when_redeployed("new")
    job.when(DriverEnded(at=job.now, epoch=job.standby_epoch, failure=HOPELESS))
    place(airflow_app, job, **deployed(running, running))
    pending = get(airflow_app, PATH)["pending"]
    assert pending["stage"] == "REFUSED"
    assert HOPELESS.message in pending["reason"]


@pytest.mark.parametrize("stored", ["no DAG", "another task"])
def test_dag_that_airflow_does_not_store_is_unknown(airflow_app: AirflowApp, tmp_path: Path, stored: str) -> None:
    running = store_dag(airflow_app, tmp_path)
    airflow_app.clean()
    place(airflow_app, executing(), **deployed(running))
    if stored == "another task":
        with DAG("flights", schedule=None) as dag:
            BaseOperator(task_id="other")
        dag.fileloc = str(tmp_path / "flights.py")
        airflow_app.store_dag(dag)
    found = get(airflow_app, PATH)
    assert (found["declared"], found["notice"][:38]) == (None, "Whether the DAG declares changes is un")


def test_job_whose_loop_has_published_no_deployment_is_unknown(airflow_app: AirflowApp, tmp_path: Path) -> None:
    store_dag(airflow_app, tmp_path)
    place(airflow_app, executing().when_redeployed("new"))
    found = get(airflow_app, PATH)
    assert (found["pending"]["changes"], found["pending"]["unknown"]) == ([], ["code"])
    assert found["notice"].startswith("Whether the DAG declares changes is unknown")


@pytest.mark.parametrize(("user", "status"), [("viewer", 200), (None, 401)])
def test_preview_needs_a_login(airflow_app: AirflowApp, user: str | None, status: int) -> None:
    place(airflow_app, executing())
    assert airflow_app.client(user).get(f"{API}{PATH}").status_code == status
