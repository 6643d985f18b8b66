"""Rights on a job: the DAGs whose tasks run the job decide, with the access entities that Airflow checks for the same data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.connection_pool import small_pool
from tests.support.airflow.published_documents import executing, place, published, suspended
from tests.support.airflow.rest_api import bounds, with_policy
from tests.support.examples import long_except

JOB = f"{API}/jobs/departures"
BODY = {"job": bounds(1, 3)}

Rule = Callable[[str, str, str, str | None], bool]
"""User, DAG, method and access entity -> whether the auth manager refuses."""


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rule], None]:
    """Let Airflow's auth manager refuse what a rule refuses."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    authorized = SimpleAuthManager.is_authorized_dag

    def install(rule: Rule) -> None:
        def is_authorized_dag(
            self: Any, *, method: Any, user: Any, access_entity: Any = None, details: Any = None
        ) -> bool:
            entity = None if access_entity is None else access_entity.value
            if details is not None and rule(user.username, details.id, method, entity):
                return False
            allowed: bool = authorized(self, method=method, access_entity=access_entity, details=details, user=user)
            return allowed

        monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)

    return install


@pytest.fixture
def secret_dag(refuse: Callable[[Rule], None]) -> None:
    """A DAG that only the administrator may see."""
    refuse(lambda user, dag_id, method, entity: dag_id == "secret" and user != "admin")


# ---- the DAGs that run the job --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("secret_dag")
def test_consumer_does_not_lock_the_owners_out_of_a_job(airflow_app: AirflowApp) -> None:
    """A DAG of another team is scheduled on the Asset of the job. The owner of the job cannot see that DAG."""
    asset = place(airflow_app, executing())
    airflow_app.schedule_on(asset, "secret")
    editor = airflow_app.client()
    assert editor.put(f"{JOB}/resource-requirements", json=BODY).status_code == 200
    assert editor.post(f"{JOB}/suspend", json={}).status_code == 202
    assert editor.get(JOB).json()["editable"] is True


@pytest.mark.usefixtures("secret_dag")
def test_dags_that_a_user_may_not_read_are_not_listed(airflow_app: AirflowApp) -> None:
    airflow_app.schedule_on(place(airflow_app, executing()), "secret")
    assert airflow_app.client().get(JOB).json()["dag_ids"] == ["flights"]
    assert airflow_app.client().get(f"{API}/jobs").json()["jobs"][0]["dag_ids"] == ["flights"]
    assert airflow_app.client().get(f"{API}/jobs", params={"dag_id": "secret"}).json()["total_entries"] == 0
    assert airflow_app.client("admin").get(JOB).json()["dag_ids"] == ["flights", "secret"]


@pytest.mark.usefixtures("secret_dag")
def test_right_to_read_a_consumer_is_no_right_to_read_the_job(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing("arrivals"))
    airflow_app.schedule_on(place(airflow_app, executing(), dag_id="secret"), "flights")
    assert [job["job"] for job in airflow_app.client().get(f"{API}/jobs").json()["jobs"]] == ["arrivals"]
    assert airflow_app.client().get(JOB).status_code == 404
    assert airflow_app.client().put(f"{JOB}/resource-requirements", json=BODY).status_code == 404
    assert airflow_app.client("admin").get(JOB).status_code == 200


@pytest.mark.parametrize("by", ["name", "uri"])
@pytest.mark.usefixtures("secret_dag")
def test_dag_that_is_scheduled_on_a_job_is_one_of_its_dags(airflow_app: AirflowApp, by: str) -> None:
    from airflow.models.asset import (  # noqa: PLC0415
        AssetModel,
        DagScheduleAssetNameReference,
        DagScheduleAssetUriReference,
    )

    asset = place(airflow_app, executing())
    airflow_app.dag("secret")
    with airflow_app.session() as session:
        model = {"name": DagScheduleAssetNameReference, "uri": DagScheduleAssetUriReference}[by]
        value = getattr(session.get(AssetModel, asset), by)
        session.add(model(**{by: value}, dag_id="secret"))
    try:
        assert airflow_app.client("admin").get(JOB).json()["dag_ids"] == ["flights", "secret"]
        assert airflow_app.client().get(JOB).json()["dag_ids"] == ["flights"]
    finally:
        with airflow_app.session() as session:
            session.query(model).delete()


@pytest.mark.usefixtures("secret_dag")
def test_task_of_another_team_on_the_asset_does_not_lock_the_owners_out(
    airflow_app: AirflowApp,
) -> None:
    """A job executes in DAG "flights". A task of DAG "secret" then declares the Asset as inlet and outlet, and runs no job."""
    from airflow.models.asset import TaskInletAssetReference, TaskOutletAssetReference  # noqa: PLC0415

    asset = place(airflow_app, executing())
    airflow_app.dag("secret")
    with airflow_app.session() as session:
        for reference in (TaskInletAssetReference, TaskOutletAssetReference):
            session.add(reference(asset_id=asset, dag_id="secret", task_id="enrich"))
    assert airflow_app.client().get(JOB).status_code == 200
    assert airflow_app.client().get(JOB).json()["dag_ids"] == ["flights"]
    assert airflow_app.client().put(f"{JOB}/resource-requirements", json=BODY).status_code == 200


@pytest.mark.usefixtures("secret_dag")
def test_job_that_two_dags_run_requires_the_rights_on_both(airflow_app: AirflowApp) -> None:
    """No summary names the DAG that runs the job."""
    from airflow.models.asset import TaskInletAssetReference, TaskOutletAssetReference  # noqa: PLC0415

    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {"desired_state": "running"})
    airflow_app.dag("secret")
    with airflow_app.session() as session:
        for reference in (TaskInletAssetReference, TaskOutletAssetReference):
            session.add(reference(asset_id=asset, dag_id="secret", task_id="stream"))
    assert airflow_app.client().get(JOB).status_code == 404
    assert airflow_app.client("admin").get(JOB).status_code == 200


def test_users_with_rights_on_one_dag_each_control_their_own_jobs(
    airflow_app: AirflowApp, refuse: Callable[[Rule], None]
) -> None:
    place(airflow_app, executing("arrivals"), dag_id="north")
    place(airflow_app, executing("departures"), dag_id="south")
    refuse(lambda user, dag_id, method, entity: (user, dag_id) in {("editor", "north"), ("admin", "south")})
    for user, own, other in (("admin", "arrivals", "departures"), ("editor", "departures", "arrivals")):
        client = airflow_app.client(user)
        assert [job["job"] for job in client.get(f"{API}/jobs").json()["jobs"]] == [own]
        assert client.post(f"{API}/jobs/{own}/suspend", json={}).status_code == 202
        assert client.post(f"{API}/jobs/{other}/suspend", json={}).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/plan"), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/resume")]
)
@pytest.mark.usefixtures("secret_dag")
def test_response_does_not_reveal_whether_a_hidden_job_exists(airflow_app: AirflowApp, method: str, path: str) -> None:
    place(airflow_app, executing("hidden"), dag_id="secret")
    responses = [
        airflow_app.client().request(method, f"{API}/jobs/{name}{path}", **({} if method == "GET" else {"json": {}}))
        for name in ("hidden", "absent")
    ]
    assert [response.status_code for response in responses] == [404, 404]
    assert responses[0].text.replace("hidden", "absent") == responses[1].text
    assert responses[0].headers.keys() == responses[1].headers.keys()


@pytest.mark.parametrize("is_granted", [True, False])
def test_auth_manager_decides_with_the_team_of_the_dag(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, is_granted: bool
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415
    from airflow.models.dag import DagModel  # noqa: PLC0415

    place(airflow_app, executing("arrivals"), dag_id="north")
    place(airflow_app, executing("departures"), dag_id="south")
    teams, checked = {"north": "blue"}, set[tuple[str, str | None]]()

    def grant(_: Any, batch: Any, **__: Any) -> bool:
        checked.update((it["details"].id, it["details"].team_name) for it in batch)
        return is_granted

    def permitted(_: Any, *, dag_ids: set[str], team_name: str | None = None, **__: Any) -> set[str]:
        return {dag_id for dag_id in dag_ids if teams.get(dag_id) == team_name == "blue"}

    monkeypatch.setattr(DagModel, "get_dag_id_to_team_name_mapping", lambda *_, **__: teams)
    monkeypatch.setattr(SimpleAuthManager, "batch_is_authorized_dag", grant)
    monkeypatch.setattr(SimpleAuthManager, "filter_authorized_dag_ids", permitted)
    jobs = airflow_app.client().get(f"{API}/jobs").json()["jobs"]
    assert checked == {("north", "blue"), ("south", None)}
    assert [job["job"] for job in jobs] == (["arrivals", "departures"] if is_granted else ["arrivals"])


# ---- access entities ------------------------------------------------------------------------------------------------


def test_user_who_may_not_clear_tasks_resumes_no_job(airflow_app: AirflowApp, refuse: Callable[[Rule], None]) -> None:
    """A user may edit a DAG, but may not edit its task instances. Airflow's own API refuses to clear the task of this user."""
    asset = place(airflow_app, suspended(), desired_state="suspended")
    airflow_app.run(state="success")
    refuse(lambda user, dag_id, method, entity: user == "editor" and (method, entity) == ("PUT", "TASK_INSTANCE"))
    answer = airflow_app.client().post(f"{JOB}/resume", json={})
    assert (answer.status_code, "clear task instances" in answer.json()["detail"]) == (403, True)
    assert airflow_app.task_state() == "success"
    assert airflow_app.stored(asset, "summary") is not None
    assert airflow_app.audit() == []
    assert airflow_app.client("admin").post(f"{JOB}/resume", json={}).status_code == 202


ENTITIES = {
    "TASK_INSTANCE": ["/deployment"],
    "TASK_LOGS": ["/deployment", "/failures", "/transitions", "/rescales", "/rescales/1"],
    "XCOM": ["/transitions", "/rescales", "/rescales/summary", "/rescales/1"],
}
"""Access entity -> what a user without the right to read it may not read."""

ALWAYS = ["", "/plan", "/metrics", "/resource-requirements"]


@pytest.mark.parametrize("entity", ENTITIES)
def test_failures_and_transitions_require_the_access_entities_of_airflow(
    airflow_app: AirflowApp, refuse: Callable[[Rule], None], entity: str
) -> None:
    place(airflow_app, executing().when_query_failed())
    refuse(lambda user, dag_id, method, refused: refused == entity)
    client = airflow_app.client("viewer")
    paths = {path for listed in ENTITIES.values() for path in listed}
    refused = {path for path in paths if client.get(JOB + path).status_code == 403}
    assert refused == set(ENTITIES[entity])
    assert [client.get(JOB + path).status_code for path in ALWAYS] == [200] * len(ALWAYS)


def test_message_of_a_failure_is_hidden_from_a_user_who_may_not_read_logs(
    airflow_app: AirflowApp, refuse: Callable[[Rule], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_adaptive._web.api.routes import events  # noqa: PLC0415
    from airflow_adaptive._web.api.routes.events import Feed  # noqa: PLC0415

    monkeypatch.setattr(events, "FEED", Feed(poll_interval_s=0.001, heartbeat_interval_s=60, lifetime_s=0.5))
    place(airflow_app, executing().when_query_failed())
    client = airflow_app.client("viewer")
    paths = [f"{API}/jobs", *(JOB + path for path in ("", "/events", "/plan", "/resource-requirements"))]
    assert "TASK_FAILED" in "".join(client.get(path).text for path in paths)
    refuse(lambda user, dag_id, method, entity: entity == "TASK_LOGS")
    assert "TASK_FAILED" not in "".join(client.get(path).text for path in paths)
    assert client.get(JOB).json()["last_transition"] is None


def test_exception_of_a_policy_is_hidden_from_a_user_who_may_not_read_logs(
    airflow_app: AirflowApp, refuse: Callable[[Rule], None]
) -> None:
    place(airflow_app, executing(), **with_policy(problem="KeyError: 'password'", advice=None))
    assert airflow_app.client("viewer").get(JOB).json()["policy"]["problem"] == "KeyError: 'password'"
    refuse(lambda user, dag_id, method, entity: entity == "TASK_LOGS")
    assert airflow_app.client("viewer").get(JOB).json()["policy"]["problem"] == "The task log contains the reason."


@pytest.mark.parametrize("entity", ["RUN", "TASK_INSTANCE"])
def test_task_of_a_job_is_hidden_from_users_without_access_to_tasks(
    airflow_app: AirflowApp, refuse: Callable[[Rule], None], entity: str
) -> None:
    place(airflow_app, executing())
    assert airflow_app.client("viewer").get(JOB).json()["task"]["task_id"] == "stream"
    refuse(lambda user, dag_id, method, refused: refused == entity)
    details, item = airflow_app.client("viewer").get(JOB), airflow_app.client("viewer").get(f"{API}/jobs")
    assert (details.json()["task"], details.json()["attempt"]) == (None, None)
    assert item.json()["jobs"][0]["task"] is None


# ---- number of calls ------------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of calls of the auth manager, by function. Remote auth managers send one request for each call."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    found: Counter[str] = Counter()

    def grant(name: str) -> bool:
        found[name] += 1
        return True

    for name in ("batch_is_authorized_dag", "is_authorized_dag"):
        monkeypatch.setattr(SimpleAuthManager, name, lambda *_, name=name, **__: grant(name))
    return found


@pytest.mark.parametrize("count", [1, 30])
def test_list_calls_the_auth_manager_twice_for_any_number_of_jobs(
    airflow_app: AirflowApp, calls: Counter[str], count: int
) -> None:
    """One batch for the DAGs of all jobs, and one batch for the access entities of the page."""
    for number in range(count):
        airflow_app.show(airflow_app.declare(f"job-{number}", f"dag-{number}"), {"desired_state": "running"})
    assert airflow_app.client("viewer").get(f"{API}/jobs").json()["total_entries"] == count
    assert calls == {"batch_is_authorized_dag": 2}


@pytest.mark.parametrize("count", long_except([30, 300], 30))
def test_list_with_one_refused_right_needs_few_calls_of_the_auth_manager(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A user lacks one right on the DAG of one job. The batch of the page is refused. Before, each job and right took one call."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    batches: list[int] = []

    def grant(_: Any, batch: Any, **__: Any) -> bool:
        batches.append(len(batch))
        refused = ("TASK_LOGS", "dag-7")
        return all((getattr(it["access_entity"], "value", None), it["details"].id) != refused for it in batch)

    monkeypatch.setattr(SimpleAuthManager, "batch_is_authorized_dag", grant)
    for number in range(count):
        job = executing(f"job-{number}").when_query_failed()
        airflow_app.show(airflow_app.declare(f"job-{number}", f"dag-{number}"), published(job))
    jobs = airflow_app.client("viewer").get(f"{API}/jobs", params={"limit": count}).json()["jobs"]
    assert {job["job"] for job in jobs if job["last_transition"] is None} == {"job-7"}
    assert len(jobs) == count
    assert len(batches) <= 30


def test_list_checks_a_refused_right_once_for_the_jobs_of_one_dag(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One DAG runs 30 jobs, and the user may not read its logs. The answer of the auth manager for one job holds for all jobs."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    batches: list[int] = []

    def grant(_: Any, batch: Any, **__: Any) -> bool:
        batches.append(len(batch))
        return all(getattr(it["access_entity"], "value", None) != "TASK_LOGS" for it in batch)

    monkeypatch.setattr(SimpleAuthManager, "batch_is_authorized_dag", grant)
    for number in range(30):
        airflow_app.show(airflow_app.declare(f"job-{number}", task_id=f"stream-{number}"), {"desired_state": "running"})
    assert len(airflow_app.client("viewer").get(f"{API}/jobs").json()["jobs"]) == 30
    assert len(batches) == 5


@pytest.mark.usefixtures("secret_dag")
def test_list_has_the_jobs_of_the_permitted_dags_if_the_batch_is_refused(airflow_app: AirflowApp) -> None:
    for dag_id in ("secret", "north", "south"):
        airflow_app.show(airflow_app.declare(f"job-{dag_id}", dag_id), {"desired_state": "running"})
    found = airflow_app.client("viewer").get(f"{API}/jobs").json()
    assert [job["job"] for job in found["jobs"]] == ["job-north", "job-south"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/departures"), ("GET", "/departures/plan"), ("POST", "/departures/suspend")],
)
def test_request_holds_no_connection_while_the_auth_manager_responds(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """The auth manager is a remote service that hangs. Its callers must not hold the connections of the API server."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    place(airflow_app, executing())
    held: list[int] = []
    with small_pool(2) as engine:

        def grant(*_: Any, **__: Any) -> bool:
            held.append(engine.pool.checkedout())
            return True

        monkeypatch.setattr(SimpleAuthManager, "batch_is_authorized_dag", grant)
        airflow_app.client().request(method, f"{API}/jobs{path}", **({} if method == "GET" else {"json": {}}))
    assert held
    assert set(held) == {0}
