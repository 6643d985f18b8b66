"""docs/errors.md: each message in it comes from the code; write it anew with `WRITE_PAGE=1 pytest tests/repository/test_errors_page.py`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import httpx
import pytest
from airflow.sdk.exceptions import AirflowException
from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.job.entry import unmanaged_script
from airflow_adaptive.job.entry.unmanaged_script import UnmanagedScript
from airflow_adaptive.job.protocol.codec import FORMAT, encode_journal, journal_name
from airflow_adaptive.job.protocol.conf import NotSubmittedError, read_settings
from airflow_adaptive.job.protocol.documents import Action, Directive, JournalDocument
from airflow_adaptive.job.queries.script_queries import ScriptQueries
from airflow_adaptive.job.queries.writers import AdaptiveJobError, require_same_queries, require_writers
from airflow_adaptive.launch.loop_events import loop_event, superseded_event
from airflow_adaptive.launch.task_result import task_result
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_adaptive.ports import ClusterUnreachableError, DriverLog, DriverSubmission, JobDirectoryError, PortError
from airflow_adaptive.runtime.journal.journal import SupersededError
from airflow_adaptive.runtime.journal.storage import Storage
from airflow_adaptive.spark.address import ClusterAddress, MasterAddress
from airflow_adaptive.spark.standalone import StandaloneCluster
from airflow_adaptive.testing.simulation.one_job import Simulation
from tests.support.repository import ROOT
from tests.unit.runtime.observation.test_driver_log_diagnosis import IMPORT_ERROR, NO_EXECUTORS, NO_PYTHON

PAGE = ROOT / "docs" / "errors.md"
WRITE = "WRITE_PAGE"

HEAD = """# Errors

What goes wrong, what is said, and what to do. Nothing here is a traceback alone; where it is seen is told by the headings. The
messages are made by the code itself when the tests run.

"""

TABLE = "| Situation | Message | What to do |\n|---|---|---|\n"

TOO_MUCH = scheduled_policy(zone="UTC", windows=[window("day", (2, 9), start="08:00", end="20:00")])

SCRIPT = "from airflow_adaptive.job import AdaptiveJob\n"


class Row(NamedTuple):
    """A situation, what is said then, and what to do."""

    situation: str
    message: str
    advice: str

    def __str__(self) -> str:
        return f"| {self.situation} | {self.message.replace('|', chr(92) + '|')} | {self.advice} |\n"


class Desk:
    """A DAG author's desk: a script, a place for jobs, and a connection to a cluster that nobody will reach."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "departures.py").write_text(SCRIPT)

    def operator(self, **changes: Any) -> AdaptiveSparkOperator:
        declared = {
            "task_id": "departures",
            "job": "departures",
            "application": str(self.folder / "departures.py"),
            "job_directory": f"file://{self.folder}/jobs",
        }
        return AdaptiveSparkOperator(**declared | changes)

    def refusal(self, **changes: Any) -> str:
        """What the task's error says of a wrong declaration."""
        with pytest.raises((AirflowException, TypeError)) as raised:
            self.operator(**changes)._spec("attempt")
        return self._shown(raised.value)

    def refused_log(self, job: str, **fields: Any) -> str:
        """What it says when this is the newest document in the log of its job."""
        directive = Directive(epoch=1, nonce="n", version=1, action=Action.RUN, plan=None)
        document = JournalDocument(job=job, number=1, at="", owner="o", directive=directive, scheduler={})
        log = self.folder / "jobs" / "departures" / "journal"
        log.mkdir(parents=True, exist_ok=True)
        (log / journal_name(1)).write_text(json.dumps(json.loads(encode_journal(document)) | fields))
        told = self.refusal()
        (log / journal_name(1)).unlink()
        return told

    def end(self, event: dict[str, Any]) -> str:
        """What the task's error says of such an end."""
        with pytest.raises(AirflowException) as raised:
            task_result("departures", event, None)
        return self._shown(raised.value)

    def _shown(self, error: BaseException) -> str:
        return str(error).replace(str(self.folder), "/opt/jobs")


def failed(simulation: Simulation) -> str:
    """The newest failure of a job that has run to its end, as the XCom `failures` shows it."""
    simulation.run()
    shown: str = simulation.store.views[-1]["failures"][-1]["failure"]
    return shown


def with_driver(act: Callable[[Simulation, str], None], **options: Any) -> Simulation:
    """A job whose driver never reports, until something happens to it."""
    simulation = Simulation(resource_stabilization_timeout="2 s", restart_strategy="none", **options)
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.drivers.silent = True
    simulation.clock.at(20, lambda: act(simulation, next(reversed(simulation.cluster.submissions))))
    return simulation


def dies(log: DriverLog) -> Callable[[Simulation, str], None]:
    def act(simulation: Simulation, driver: str) -> None:
        simulation.cluster.write(driver, stdout=log.stdout, stderr=log.stderr)
        simulation.cluster.kill_driver(driver)

    return act


def falls_silent() -> str:
    simulation = Simulation(resource_stabilization_timeout="2 s", restart_strategy="none")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.clock.at(60, lambda: setattr(simulation.drivers, "silent", True))
    return failed(simulation)


def end_of(simulation: Simulation) -> dict[str, Any]:
    """The event by which the trigger tells how a job has ended."""
    loop = simulation.loop()
    return loop_event(simulation.spec, asyncio.run(loop.run()), None, loop.trouble)


def too_small() -> Simulation:
    simulation = Simulation(parallelism=(3, 4), resource_wait_timeout="10 s")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    return simulation


def down() -> Simulation:
    simulation = Simulation(resource_wait_timeout="10 s")
    simulation.ports = replace(simulation.ports, cluster=client(refused()))
    return simulation


def client(result: httpx.Response | Exception) -> StandaloneCluster:
    def handle(_: httpx.Request) -> httpx.Response:
        if isinstance(result, Exception):
            raise result
        return result

    address = ClusterAddress(masters=(MasterAddress(host="h1"),))
    return StandaloneCluster(address, transport=httpx.MockTransport(handle))


def answer(result: httpx.Response | Exception, ask: Callable[[StandaloneCluster], Coroutine[Any, Any, Any]]) -> str:
    """What the client of a cluster says whose master answers so."""

    async def told() -> str:
        cluster = client(result)
        with pytest.raises((ClusterUnreachableError, PortError)) as raised:
            await ask(cluster)
        await cluster.close()
        return str(raised.value)

    return asyncio.run(told())


def refused() -> httpx.ConnectError:
    error = httpx.ConnectError("refused")
    error.__cause__ = ConnectionRefusedError()
    return error


class ReadOnly(LocalFileSystem):
    """A filesystem of somebody else's."""

    def ls(self, path: str, **_: Any) -> Any:
        raise PermissionError(13, "Permission denied", path)


def not_writable() -> str:
    with pytest.raises(JobDirectoryError) as raised:
        Storage(ReadOnly(), "/shared/jobs/departures").names("journal")
    return f"job 'departures': {raised.value}"


def returned_nothing() -> str:
    with pytest.raises(AdaptiveJobError) as raised:
        require_writers(None, "departures", "departures")
    return f"AdaptiveJobError: {raised.value}"


def returned_other_queries() -> str:
    with pytest.raises(AdaptiveJobError) as raised:
        require_same_queries(["hourly", "weekly"], ["hourly", "daily"], "departures")
    return f"AdaptiveJobError: {raised.value}"


def local_master() -> str:
    writer: Any = SimpleNamespace(_spark=SimpleNamespace(sparkContext=SimpleNamespace(master="local[*]")))
    with pytest.raises(AdaptiveJobError) as raised:
        UnmanagedScript()._start_control_loop(writer, "")
    return f"AdaptiveJobError: {raised.value}"


def query_before_the_job() -> str:
    script = UnmanagedScript()
    script._queries = ScriptQueries(cast(Any, None), job="departures")
    with pytest.raises(AdaptiveJobError) as raised:
        script.disable_hooks()
    return f"AdaptiveJobError: {raised.value}"


def exit_code() -> str:
    report = unmanaged_script.report_end(SystemExit(3))
    return f"{report.error_class}: {report.message}"


def by_hand() -> str:
    with pytest.raises(NotSubmittedError) as raised:
        read_settings(lambda _: None)
    return f"NotSubmittedError: {raised.value}"


def declared(desk: Desk) -> list[Row]:
    (desk.folder / "broken.py").write_text("def departures(:\n")
    return [
        Row("unknown connection", desk.refusal(conn_id="spark_test"), "add the connection, or name another"),
        Row(
            "connection of another cluster manager",
            desk.refusal(conn_id="yarn"),
            "Spark standalone is the only one so far",
        ),
        Row("script missing", desk.refusal(application=f"{desk.folder}/gone.py"), "the path is Airflow's, not Spark's"),
        Row("script with a syntax error", desk.refusal(application=f"{desk.folder}/broken.py"), "mend that line"),
        Row("lower bound above the upper", desk.refusal(parallelism=(4, 1)), "swap them"),
        Row("a bound of zero", desk.refusal(parallelism=(0, 4)), "a job needs a slot at least"),
        Row(
            "bound above the maximum",
            desk.refusal(parallelism=(1, 8), max_parallelism=4),
            "raise `max_parallelism`; of a job with a checkpoint it is fixed",
        ),
        Row("bounds that are no numbers", desk.refusal(parallelism="1-4"), "write `(1, 4)`"),
        Row("misspelled parameter", desk.refusal(stop_timout="5 s"), "found when the DAG is parsed"),
        Row(
            "unknown option of Flink's",
            desk.refusal(**{"jobmanager.adaptive-scheduler.scaling-interval.mini": "5 s"}),
            "[docs/options.md](options.md) has all names",
        ),
        Row("malformed duration", desk.refusal(stop_timeout="soon"), "write it in one of these ways"),
        Row("contradicting options", desk.refusal(scaling_interval_max="10 s"), "see [options](options.md)"),
        Row(
            "rescale policy that is none",
            desk.refusal(rescale_policy="daily"),
            "see [rescale policies](rescale-policies.md)",
        ),
        Row(
            "rescale policy beyond the job's maximum",
            desk.refusal(rescale_policy=TOO_MUCH),
            "or give the job a larger `max_parallelism`",
        ),
        Row("memory below Spark's least", desk.refusal(executor_memory="100m"), "give it more"),
        Row(
            "a property that a parameter decides",
            desk.refusal(conf={"spark.executor.memory": "4g"}),
            "size the job by the operator",
        ),
        Row(
            "a secret in the DAG",
            desk.refusal(conf={"spark.hadoop.fs.s3a.secret.key": "..."}),
            'connection\'s extra: `{"conf": {...}}`; see [secrets](runbook.md#secrets)',
        ),
        Row("several mistakes", desk.refusal(parallelism=(4, 1), stop_timeout="soon"), "one error tells all of them"),
        Row("job directory not absolute", desk.refusal(job_directory="jobs"), "Spark and Airflow must find the same"),
        Row("job directory not writable", not_writable(), "the task is retried, if it has retries"),
        Row("directory of another job", desk.refused_log("arrivals"), "never point two jobs at one folder"),
        Row(
            "written by a newer version",
            desk.refused_log("departures", format=FORMAT + 1),
            "upgrade all Airflow components, not some",
        ),
    ]


def at_the_cluster() -> list[Row]:
    foreign = httpx.Response(200, text="<html>")
    return [
        Row(
            "master down, at the start or later",
            answer(refused(), lambda cluster: cluster.snapshot()),
            "nothing is decided while it is down; a running job runs on",
        ),
        Row(
            "not a master",
            answer(foreign, lambda cluster: cluster.snapshot()),
            "correct host and ports of the connection",
        ),
        Row(
            "REST server of the master off",
            answer(refused(), lambda cluster: cluster.submit(DriverSubmission(name="n", script="s"))),
            "the job restarts with backoff until it is on",
        ),
        Row(
            "master asks for a token",
            answer(httpx.Response(401), lambda cluster: cluster.snapshot()),
            "set the connection's password",
        ),
    ]


def in_the_driver() -> list[Row]:
    def launched_without_java(simulation: Simulation, driver: str) -> None:
        said = 'Exception from the cluster: java.io.IOException: Cannot run program "/opt/java/bin/java": error=2'
        simulation.cluster.kill_driver(driver, said)

    return [
        Row("script that does not import", failed(with_driver(dies(IMPORT_ERROR))), "no restart: it would not help"),
        Row(
            "script that starts no query, and never calls `run`",
            failed(with_driver(lambda simulation, driver: simulation.cluster.finish_driver(driver))),
            "no restart",
        ),
        Row(
            "[script without `AdaptiveJob`](scripts.md#scripts-without-adaptivejob) that has its own master",
            local_master(),
            "no restart",
        ),
        Row("script that starts a query itself, and then calls `run`", query_before_the_job(), "no restart"),
        Row(
            "script without `AdaptiveJob` that ends itself",
            exit_code(),
            "the job restarts with backoff; exit code 0 is its end",
        ),
        Row("script whose function starts its query itself, or returns nothing", returned_nothing(), "no restart"),
        Row(
            "script whose function returns other queries for another plan",
            returned_other_queries(),
            "the queries go on as before (`rejection` in the driver's status)",
        ),
        Row("Python missing on a worker", failed(with_driver(dies(NO_PYTHON))), "the job restarts with backoff"),
        Row("Java missing on a worker", failed(with_driver(launched_without_java)), "the job restarts with backoff"),
        Row(
            "no executor stays alive: no Java, no memory, a wrong image",
            failed(with_driver(dies(DriverLog(stderr=NO_EXECUTORS.stderr.splitlines()[-1])))),
            "the job restarts with backoff",
        ),
        Row(
            "driver that dies before its first report, without a word",
            failed(with_driver(dies(DriverLog()))),
            "killed from outside? the worker's log and the machine's tell",
        ),
        Row("script that is run by hand", by_hand(), "let the operator run it"),
        Row("driver that hangs", falls_silent(), "it is killed and replaced; look at its threads if it repeats"),
    ]


def at_the_end(desk: Desk) -> list[Row]:
    taken_over = superseded_event(SupersededError(7, "arrivals/job/manual__2026/2f6c#loop"))
    return [
        Row("the same job in two DAGs, or in two runs", desk.end(taken_over), "the newest one runs it"),
        Row(
            "cluster too small for the minimum until `resource_wait_timeout`",
            desk.end(end_of(too_small())),
            "the master's UI shows who has the cores",
        ),
        Row(
            "master down until `resource_wait_timeout`",
            desk.end(end_of(down())),
            "a retry of the task tries again; a job that has run before waits without end",
        ),
        Row("script that does not import", desk.end(end_of(with_driver(dies(IMPORT_ERROR)))), "no retry"),
        Row("canceled by somebody", desk.end({"outcome": "CANCELED", "timed_out": False}), "no retry"),
    ]


def page(desk: Desk) -> str:
    parts = {
        "When the task starts": declared(desk),
        "While the cluster is asked: in the task's log, after `the cluster does not answer`": at_the_cluster(),
        "Failures of the driver: in the task's log, the XComs `failures` and `transitions`": in_the_driver(),
        "How a task ends": at_the_end(desk),
    }
    return HEAD + "\n".join(f"## {title}\n\n{TABLE}{''.join(map(str, rows))}" for title, rows in parts.items())


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_default: None) -> Desk:
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn"}))
    return Desk(tmp_path)


def test_page_shows_what_the_code_says(desk: Desk) -> None:
    shown = page(desk)
    if os.environ.get(WRITE):
        PAGE.write_text(shown)
    assert PAGE.read_text() == shown


def test_every_message_is_one_line_with_the_job_named_at_most_once(desk: Desk) -> None:
    rows = [*declared(desk), *at_the_cluster(), *in_the_driver(), *at_the_end(desk)]
    for row in rows:
        assert row.message, row.situation
        assert "\n" not in row.message, row.situation
        assert row.message.count("job 'departures'") <= 1, row.situation
        assert "Traceback" not in row.message, row.situation
