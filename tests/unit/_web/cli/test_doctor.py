"""`airflow adaptive doctor` says of each part of an installation whether it works, and what to do if it does not."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus, decode_document, encode_document
from tests.lab.scenario import TRANSIENT
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.job_files import master_with_log, place_with_files
from tests.support.airflow.published_documents import JOB, executing, published, scenario, time_series
from tests.unit._web.cli.conftest import Ran, Run


@pytest.fixture(autouse=True)
def no_triggerer(airflow_app: AirflowApp) -> None:
    from airflow.jobs.job import Job  # noqa: PLC0415  once the database is set
    from sqlalchemy import delete  # noqa: PLC0415

    with airflow_app.session() as session:
        session.execute(delete(Job))


def found(ran: Ran) -> dict[str, tuple[str, str]]:
    """Check -> its result and its text."""
    return {line[9:23].strip(): (line[:8].strip(), line[24:]) for line in ran.out.splitlines()}


def start_triggerer(airflow_app: AirflowApp) -> None:
    from airflow.jobs.job import Job  # noqa: PLC0415

    with airflow_app.session() as session:
        job = Job(job_type="TriggererJob", state="running", latest_heartbeat=datetime.now(UTC))
        job.job_type, job.hostname = "TriggererJob", "host-1"
        session.add(job)


def test_new_installation_names_what_is_missing(airflow_app: AirflowApp, run: Run, tmp_path: Path) -> None:
    ran = run("doctor", "absent", "--job-directory", f"file://{tmp_path}/gone")
    checks = found(ran)
    assert (ran.code, ran.err, [*checks]) == (
        1,
        "",
        ["versions", "database", "triggerer", "job directory", "connection"],
    )
    assert checks["versions"][0] == "ok"
    assert checks["triggerer"] == (
        "failed",
        "no triggerer is alive, so no job is controlled: start `airflow triggerer`",
    )
    assert (checks["job directory"][0], "has no parent: create the bucket or directory" in ran.out) == ("failed", True)
    assert checks["connection"][1].startswith("connection 'absent' is not defined: add it, for example")


def test_everything_that_a_job_needs_is_checked_without_a_trace(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start_triggerer(airflow_app)
    with master_with_log() as master:
        place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
        ran = run("doctor", "--job", JOB)
    checks = found(ran)
    assert checks["triggerer"] == ("ok", "1 alive: host-1")
    assert checks["job"] == ("ok", "job 'departures' is Executing (runs); the driver has activated the plan")
    assert checks["job directory"][1].endswith("can be written from here, and creates a file only if it is absent")
    assert checks["driver"][1].startswith(f"the driver writes to file://{tmp_path}/departures, at last at 2013-01-01T")
    assert checks["driver"][1].endswith(
        "; it has committed batches to checkpoints there, in files that Spark creates only if they are absent"
    )
    assert checks["connection"] == ("ok", "'on_test' names spark://127.0.0.1:7077")
    assert checks["cluster"][0] == "failed"  # The fake master creates the driver without a main class.
    assert [path.name for path in tmp_path.iterdir()] == [JOB]


@pytest.mark.parametrize(
    ("fault", "check", "result", "text"),
    [
        ("no status", "driver", "unknown", "no driver has written to"),
        ("no owner", "driver", "unknown", "does not name the connections of the job"),
        ("stale", "job", "unknown", "its control loop has published nothing for minutes: check that a triggerer runs"),
        ("no checkpoint", "driver", "ok", "so whether it creates a file only if it is absent is unknown"),
        ("waits", "job", "failed", "add workers, or lower its bounds; needs at least 1 slot; 0 available"),
        ("late", "job", "failed", "Executing (falls_behind); its lag grows, or exceeds lag_alert_threshold: raise"),
        (
            "restarts",
            "job",
            "failed",
            "Restarting (restarts); it restarts; attempt 1; TASK_FAILED: an executor was lost",
        ),
        ("rescales", "job", "ok", "Restarting (restarts); "),
        ("no cluster", "job", "failed", "shows whether it answers from here; the cluster does not answer"),
        ("abandoned", "job", "failed", "no control loop controls its driver: cancel the job, or run its DAG again"),
        ("no base", "job directory", "unknown", "The directory of job 'departures' is unknown. Run its DAG first."),
    ],
)
def test_job_with_a_problem(
    airflow_app: AirflowApp,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fault: str,
    check: str,
    result: str,
    text: str,
) -> None:
    with master_with_log() as master:
        asset = place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
        match fault:
            case "waits" | "restarts":
                jobs = {"waits": scenario().given_waiting(), "restarts": executing().when_query_failed(TRANSIENT)}
                airflow_app.show(asset, published(jobs[fault]))
            case "late":
                page = time_series(executing())["metrics/10"]
                airflow_app.show(asset, {"metrics/10": {**page, "lag_trend": "grows"}})
            case "rescales" | "no cluster":
                problem = {"cluster_problem": "the cluster does not answer"}
                changed = {"state": "Restarting"} if fault == "rescales" else problem
                airflow_app.show(asset, {"summary": published(executing())["summary"] | changed})
            case "no status":
                status = decode_document(DriverStatus, (tmp_path / JOB / "status.json").read_bytes())
                object.__setattr__(status, "epoch", 7)
                (tmp_path / JOB / "status.json").write_bytes(encode_document(status))
            case "no checkpoint":
                shutil.rmtree(tmp_path / JOB / "checkpoints")
            case "no owner":
                (tmp_path / JOB / "owners" / "0000000001.json").unlink()
            case "stale" | "abandoned":
                airflow_app.run(state="deferred" if fault == "stale" else "failed")
                airflow_app.age(timedelta(minutes=3))
            case _:
                airflow_app.show(asset, {"job_directory": {}})
        checks = json.loads(run("doctor", "on_test", "--job", JOB, "-o", "json").out)
    (one,) = (one for one in checks if one["name"] == check)
    assert (one["result"], text in one["text"]) == (result, True), one
