"""Two tasks, or two tries of a task, that run the same job."""

import pytest

from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._airflow.internals import AirflowFailException
from airflow_adaptive._core.ports import JobDirectoryError
from tests.lab.scenario import Scenario
from tests.support.airflow.fake_supervisor import api_server_error
from tests.support.airflow.operator_fakes import FakeInstance, begin_log, deferral, staged

pytestmark = pytest.mark.usefixtures("spark_default")


@pytest.mark.parametrize(
    ("owner", "ended", "is_reported"),
    [
        ("arrivals/job/manual/2f6c", False, True),
        ("d/departures/earlier/2f6c", False, True),
        ("d/departures/r/2f6c", False, False),
        ("arrivals/job/manual/2f6c", True, False),
    ],
    ids=["another DAG", "another run", "an earlier try", "a job that has ended"],
)
def test_job_that_another_task_runs_is_reported_with_the_remedy(
    make, airflow, tmp_path, task_log, owner, ended, is_reported
):
    spec = staged(make())
    job = Scenario().given_executing(2)
    begin_log(tmp_path, spec, owner, (job.when_canceled().when_driver_ended() if ended else job).state)
    deferral(make().execute, {"ti": FakeInstance()})
    reported = f"was started by {owner!r} (DAG/task/run/attempt), and this task takes the job over"
    assert (reported in task_log() and "run the job in one task only" in task_log()) is is_reported


def test_job_starts_although_the_directory_cannot_be_read_for_the_warning(make, airflow, monkeypatch, task_log):
    async def fails(job: DeclaredJob) -> str | None:
        raise JobDirectoryError("503 Slow Down")

    monkeypatch.setattr(DeclaredJob, "running_attempt", fails)
    deferral(make().execute, {"ti": FakeInstance()})
    assert "Whether another task runs job 'departures' is unknown: 503 Slow Down" in task_log()


@pytest.mark.parametrize(
    ("owner", "is_finished", "is_continued"),
    [
        ("d/departures/r/2f6c", True, True),
        ("d/departures/r/2f6c", False, False),
        ("d/departures/earlier/2f6c", True, False),
    ],
    ids=["a finished job", "a job that runs", "an earlier run"],
)
def test_job_whose_end_an_earlier_try_could_not_report_does_not_run_again(
    make, airflow, tmp_path, owner, is_finished, is_continued
):
    """The earlier try died before it reported the end of the job, so this try continues its attempt, which has ended."""
    spec, job = staged(make()), Scenario().given_executing(2)
    begin_log(tmp_path, spec, owner, (job.when_completed() if is_finished else job).state)
    airflow.asset_states = {"handled_requests": {"requests": [], "is_running": True}}
    trigger = deferral(make().execute, {"ti": FakeInstance(try_number=2)})
    assert (trigger.spec["attempt"] == owner) is is_continued


@pytest.mark.parametrize("outcome", ["FINISHED", "SUSPENDED"])
def test_error_of_the_withdrawal_does_not_let_the_next_try_run_a_job_that_has_ended(make, airflow, task_log, outcome):
    """The report is stored, and the response is lost: the next try would not know that the job has ended."""
    airflow.error = api_server_error()
    event = {"status": "finished", "outcome": outcome, "restarts": 0, "rescales": 0}
    assert make().execute_complete({"ti": FakeInstance()}, event)["outcome"] == outcome
    assert "The end of job 'departures' was not reported to Airflow's store: API_SERVER_ERROR" in task_log()


class OtherInstance(FakeInstance):
    """A task of another DAG."""

    dag_id = "copies"


@pytest.mark.parametrize("base", ["jobs", "other"], ids=["one job directory", "two job directories"])
def test_second_task_with_the_job_is_refused_before_anything_is_staged(make, airflow, tmp_path, base):
    """The loop of the first task has not written its journal yet."""
    deferral(make().execute, {"ti": FakeInstance()})
    before = sorted(tmp_path.rglob("*"))
    second = make(job_directory=f"file://{tmp_path}/{base}")
    with pytest.raises(
        AirflowFailException, match=r"job 'departures': the job belongs to task 'd/departures'"
    ) as raised:
        second.execute({"ti": OtherInstance()})
    assert "moved_from='d/departures'" in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_task_with_the_name_of_the_previous_one_gets_the_job(make, airflow):
    deferral(make().execute, {"ti": FakeInstance()})
    deferral(make(moved_from="d/departures").execute, {"ti": OtherInstance()})
    with pytest.raises(AirflowFailException, match="belongs to task 'copies/departures'"):
        make().execute({"ti": FakeInstance()})


def test_fleets_with_equal_items_and_a_job_share_no_directory(make, airflow, tmp_path):
    triggers = [
        deferral(make().execute, {"ti": instance})
        for instance in (FakeInstance(), FakeInstance(map_index=0), OtherInstance(map_index=0))
    ]
    directories = [trigger.spec["directory"].removeprefix(f"file://{tmp_path}/jobs/") for trigger in triggers]
    assert directories == ["departures", "d~departures/departures", "copies~departures/departures"]
    names = ["departures", "d:departures:departures", "copies:departures:departures"]
    assert [trigger.spec["graph"]["job"] for trigger in triggers] == names


def test_job_whose_directory_belongs_to_another_airflow_is_refused(make, airflow):
    """Airflow's database is another one, so only the directory knows the owner."""
    deferral(make().execute, {"ti": FakeInstance()})
    airflow.asset_states.clear()
    with pytest.raises(
        AirflowFailException, match=r"belongs to task 'd/departures' \(file://.*/owners/0000000001.json\)"
    ):
        make().execute({"ti": OtherInstance()})
    assert "owner" not in airflow.asset_states
