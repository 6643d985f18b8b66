"""A driver is assembled so that a fenced one ends with its JVM, and its lease counts while the host is suspended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import FORMATS, SUBMISSION_ID_VARIABLE, Action, DriverState, DriverStatus
from airflow_adaptive.job.control import driver_loop
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED, EXIT_FENCED
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import DriverInterfaces
from airflow_adaptive.job.entry import driver as driver_module
from airflow_adaptive.job.entry.driver import (
    CHECK_INTERVAL_S,
    EARLY_INTERVAL_S,
    EARLY_TIME_S,
    IGNORES_SIGTERM,
    MAX_BYTES,
    DriverProcess,
    DriverRuntime,
    JournalFolder,
    OutputFiles,
    Sigterm,
    ignores_sigterm,
)
from airflow_adaptive.job.spark_internals import report_spark
from tests.support.driver.simulated_driver import directive


class AssembledDriver:
    """A driver whose driver loop and components are replaced; `events` are those of its process and its watchdog."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str = "4.2.0") -> None:
        self.events: list[object] = []
        self.task_epochs: list[int] = []
        self.end: DriverState | Exception = DriverState.STOPPED
        self.boot_time = 1000.0
        self.guarding = False
        self.identity: DriverStatus
        self.interfaces: DriverInterfaces
        self.fence: Fence
        monkeypatch.setattr(driver_module, "separate_task_ids", lambda _, epoch: self.task_epochs.append(epoch))
        monkeypatch.setattr(driver_module, "unused_archive", lambda _: "/opt/spark/spark.jsa")
        for name in ("HadoopJobDirectory", "SparkExecutorPool", "SparkPlacement"):
            monkeypatch.setattr(driver_module, name, lambda *_, **__: SimpleNamespace(of_standby=SimpleNamespace))
        monkeypatch.setattr(driver_module, "boot_time", lambda: self.boot_time)
        monkeypatch.setattr(driver_module, "DriverProcess", lambda _: SimpleNamespace(exit=self.exit, jvm=4711))
        monkeypatch.setattr(driver_module, "LeaseWatchdog", self.watchdog)
        catches = SimpleNamespace(catch=lambda: self.events.append("catch"), let_pass=lambda: None)
        monkeypatch.setattr(driver_module, "Sigterm", lambda _: catches)
        monkeypatch.setattr(driver_loop, "DriverLoop", self.driver_loop)
        context = SimpleNamespace(applicationId="app-1", uiWebUrl=None)
        spark: Any = SimpleNamespace(sparkContext=context, version=version)
        self.driver = DriverRuntime(spark, DriverSettings(job="j", directory="file:///jobs/j", epoch=1, nonce="n"))
        self.named = 1
        """Epoch that the journal names."""
        self.driver.journal = SimpleNamespace(newest=lambda: directive(Action.RUN, 1, epoch=self.named, nonce="n"))

    def run(self) -> DriverState:
        workload: Any = SimpleNamespace()
        return self.driver.run(workload)

    def exit(self, code: int, _: str) -> None:
        self.events.append(("exit", code))

    def watchdog(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(
            enforce=lambda _: self.events.append("watch"),
            is_enforcing=self.guarding,
            close=lambda: self.events.append("close"),
        )

    def driver_loop(
        self, identity: DriverStatus, interfaces: DriverInterfaces, _: DriverSettings, *, fence: Fence, enforce: object
    ) -> Any:
        self.identity, self.interfaces, self.fence = identity, interfaces, fence
        return SimpleNamespace(run=self.run_control_loop)

    def run_control_loop(self) -> DriverState:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> AssembledDriver:
    return AssembledDriver(monkeypatch)


def test_driver_separates_the_ids_of_its_tasks_by_its_epoch(assembled: AssembledDriver):
    assert assembled.task_epochs == [assembled.driver.settings.epoch]


def test_driver_warns_of_an_archive_that_its_jvm_does_not_use(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    AssembledDriver(monkeypatch)
    assert "without its archive of classes, /opt/spark/spark.jsa" in caplog.text


def test_driver_that_ends_without_a_fence_closes_the_watchdog(assembled: AssembledDriver):
    assert assembled.run() is DriverState.STOPPED
    assert assembled.events == ["catch", "watch", "close"]


def test_driver_that_the_journal_does_not_name_ends_its_processes(assembled: AssembledDriver):
    assembled.named = 2
    assert assembled.run() is DriverState.FENCED
    assert assembled.events == [("exit", EXIT_FENCED)]


def test_fenced_driver_ends_its_processes_while_the_watchdog_is_on(assembled: AssembledDriver):
    """The thread of a repartition may still run when the driver loop returns."""
    assembled.end = DriverState.FENCED
    assembled.run()
    assert assembled.events[:3] == ["catch", "watch", ("exit", EXIT_FENCED)]


@pytest.mark.parametrize(("guarding", "ends"), [(False, []), (True, [("exit", EXIT_FAILED)])])
def test_driver_ends_its_processes_when_the_control_loop_fails_and_a_query_may_run(
    assembled: AssembledDriver, guarding: bool, ends: list[object]
):
    """The driver loop fails, and the thread of a query does not end."""
    assembled.end, assembled.guarding = ZeroDivisionError(), guarding
    with pytest.raises(ZeroDivisionError):
        assembled.run()
    assert assembled.events == ["catch", "watch", *ends]


def test_status_names_the_document_formats_that_the_driver_reads(assembled: AssembledDriver):
    assembled.run()
    assert assembled.identity.formats == FORMATS


def test_lease_expires_while_the_host_is_suspended(assembled: AssembledDriver):
    """The host is suspended for the lease timeout: `time.monotonic` stops, and the clock of the scheduler continues."""
    assembled.run()
    read_at = assembled.interfaces.clock()
    assembled.boot_time += assembled.driver.settings.lease_timeout_s
    assert assembled.interfaces.clock() - read_at == assembled.driver.settings.lease_timeout_s
    with pytest.raises(FencedError):
        assembled.fence.check(query_may_run=False)


@pytest.mark.parametrize(
    ("folder", "variable", "submission_id", "truncates"),
    [
        ("driver-20130101000000-0001", None, "driver-20130101000000-0001", True),
        ("work-dir", "departures-1-1a2b3c4d@uid", "departures-1-1a2b3c4d@uid", False),
        ("work-dir", None, None, False),
    ],
    ids=["standalone", "named by the client", "unknown"],
)
def test_status_names_the_submission_and_only_a_standalone_worker_keeps_output(
    assembled: AssembledDriver,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: str,
    variable: str | None,
    submission_id: str | None,
    truncates: bool,
):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    if variable is not None:
        monkeypatch.setenv(SUBMISSION_ID_VARIABLE, variable)
    output = tmp_path / folder / "stdout"
    output.touch()
    os.truncate(output, MAX_BYTES + 1)
    assembled.run()
    assert assembled.identity.submission_id == submission_id
    assembled.interfaces.sleep(0.0)
    assert (output.stat().st_size == 0) is truncates


@pytest.mark.parametrize("version", ["4.0.2", "4.3.0-SNAPSHOT", "5.0.0", "4.10.1", "custom"])
def test_status_reports_the_spark_of_the_driver(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    assembled = AssembledDriver(monkeypatch, version)
    assembled.run()
    assert assembled.identity.spark == report_spark(version)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="containers of Kubernetes run Linux")
@pytest.mark.parametrize(
    ("program", "ignores"),
    [
        ("import time", True),
        ("import signal, time; signal.signal(signal.SIGTERM, print)", False),
        ("import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})", False),
    ],
    ids=["as a shell", "as a JVM", "as tini"],
)
def test_first_process_of_a_container_that_neither_handles_nor_blocks_sigterm_ignores_it(
    program: str, ignores: bool
) -> None:
    code = f"{program}; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = ignores_sigterm(Path(f"/proc/{process.pid}/status"))
        process.kill()
    assert found is ignores
    assert not ignores_sigterm(Path("/proc/none/status")), "unknown"


@pytest.mark.parametrize(("variable", "notice"), [("KUBERNETES_SERVICE_HOST", IGNORES_SIGTERM), ("OTHER", None)])
def test_status_in_a_container_whose_first_process_ignores_sigterm_says_so(
    monkeypatch: pytest.MonkeyPatch, assembled: AssembledDriver, variable: str, notice: str | None
) -> None:
    monkeypatch.setenv(variable, "10.0.0.1")
    monkeypatch.setattr(driver_module, "ignores_sigterm", lambda: True)
    assembled.run()
    assert (assembled.identity.notice, assembled.identity.is_managed) == (notice, True)


# ---- a driver ends with its JVM, whatever its threads do ------------------------------------------------------------


class Processes:
    """The processes of a driver; `ended` contains what was ended, in order."""

    def __init__(self, jvm: int, child: Any = None) -> None:
        handle = SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: jvm))
        spark: Any = SimpleNamespace(
            _jvm=SimpleNamespace(**{"java.lang.ProcessHandle": handle}),
            sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=child)),
        )
        self.ended: list[tuple[object, ...]] = []
        self.process = DriverProcess(
            spark, end=lambda code: self.ended.append(("Python", code)), kill=lambda *given: self.ended.append(given)
        )


@pytest.mark.parametrize(
    ("jvm", "child"),
    [(os.getppid(), None), (4711, SimpleNamespace(pid=4711))],
    ids=["spark-submit has started Python", "Python has started the JVM"],
)
def test_jvm_ends_before_the_process(jvm: int, child: Any, caplog: pytest.LogCaptureFixture):
    processes = Processes(jvm, child)
    processes.process.exit(3, "this driver is fenced")
    assert processes.ended == [(jvm, signal.SIGKILL), ("Python", 3)]
    assert "this driver is fenced: exiting" in caplog.text


def test_another_process_with_the_number_of_a_dead_jvm_is_left_alone():
    processes = Processes(os.getppid() + 1)
    processes.process.exit(3, "this driver is fenced")
    assert processes.ended == [("Python", 3)]


def test_processes_end_although_a_frozen_jvm_does_not_read_the_output(monkeypatch: pytest.MonkeyPatch):
    """The JVM is frozen and the pipe of the output is full, so each write of the driver blocks."""
    thawed = threading.Event()
    monkeypatch.setattr(driver_module, "OUTPUT_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(flush=thawed.wait))
    processes = Processes(os.getppid())
    processes.process.exit(3, "the lease has expired")
    thawed.set()
    assert processes.ended == [(os.getppid(), signal.SIGKILL), ("Python", 3)]


# ---- the files that a worker keeps of a driver's output stay small --------------------------------------------------


LIMIT = 1000


class Output:
    """A driver's directory, its output, and a clock that stands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 0.0
        self.warnings: list[str] = []
        self.output = OutputFiles(directory, clock=lambda: self.time, warn=self.warnings.append, max_bytes=LIMIT)

    def check(self) -> None:
        self.time += CHECK_INTERVAL_S
        self.output.truncate_if_due()

    def sizes(self) -> dict[str, int]:
        return {file.name: file.stat().st_size for file in sorted(self.directory.iterdir())}


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path)


def test_weeks_of_output_leave_at_most_two_files_of_each_stream(output: Output):
    with (output.directory / "stderr").open("ab") as worker, (output.directory / "stdout").open("ab") as quiet:
        quiet.write(b"hello\n")
        quiet.flush()
        for number in range(10_000):
            worker.write(b"%09d\n" % number)
            worker.flush()
            output.check()
    assert output.sizes() == {"stderr": 10_000 * 10 % 1010, "stderr.old": 1010, "stdout": 6}
    kept = [int(line) for name in ("stderr.old", "stderr") for line in (output.directory / name).read_text().split()]
    assert kept == list(range(kept[0], 10_000))


def test_sizes_are_checked_at_the_interval_only(output: Output):
    output.output.truncate_if_due()
    (output.directory / "stdout").write_bytes(b"x" * 2 * LIMIT)
    output.time = CHECK_INTERVAL_S / 2
    output.output.truncate_if_due()
    assert output.sizes() == {"stdout": 2 * LIMIT}
    output.check()
    assert output.sizes() == {"stdout": 0, "stdout.old": 2 * LIMIT}


def test_file_that_cannot_be_copied_is_truncated_and_warned_of_once(output: Output):
    (output.directory / "stderr.old").mkdir()
    for _ in range(2):
        (output.directory / "stderr").write_bytes(b"x" * 2 * LIMIT)
        output.check()
        assert (output.directory / "stderr").stat().st_size == 0
    assert len(output.warnings) == 1
    assert output.warnings[0].startswith("cannot truncate the driver's output, or cannot keep a copy: ")


# ---- SIGTERM is a request to end at a batch boundary, once queries may run ------------------------------------------


class Journal:
    """A journal in a folder, and the time of a driver that waits for its changes."""

    def __init__(self, folder: Path, directory: str) -> None:
        (folder / "journal").mkdir()
        self.time = 0.0
        self.waits: list[float] = []
        self.writes: list[float] = []
        self._folder = folder / "journal"
        self._watched = JournalFolder(directory, clock=lambda: self.time)

    def wait(self) -> float:
        """Wait for half a second, and return how long it took."""
        begun = self.time
        self._watched.wait(0.5, self._sleep)
        return round(self.time - begun, 2)

    def write_at(self, time_s: float) -> None:
        """Let a document appear."""
        self.writes.append(time_s)

    def _sleep(self, seconds: float) -> None:
        self.time += seconds
        while self.writes and self.writes[0] <= self.time:
            number = self.writes.pop(0)
            (self._folder / f"{number}.json").touch()
            os.utime(self._folder, (number, number))  # Two changes may have the same time on a fast machine.


def test_change_of_a_local_journal_ends_the_wait_and_shortens_those_after_it(tmp_path: Path):
    journal = Journal(tmp_path, tmp_path.as_uri())
    assert journal.wait() == 0.5
    journal.write_at(0.71)
    assert journal.wait() == 0.25
    assert journal.wait() == EARLY_INTERVAL_S
    journal.time += EARLY_TIME_S
    assert journal.wait() == 0.5


@pytest.mark.parametrize("directory", ["s3a://bucket/job", "file:///no/such/folder"])
def test_journal_that_gives_no_hints_is_read_at_its_interval(tmp_path: Path, directory: str):
    journal = Journal(tmp_path, directory)
    journal.write_at(0.2)
    assert [journal.wait(), journal.wait()] == [0.5, 0.5]


class Jvm:
    """The handler of the JVM: a latch, and how often the previous handler was restored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.count, self.restored, self.error = 1, 0, error
        monkeypatch.setattr(driver_module, "catch_sigterm", self.catch)

    def catch(self, _: Any) -> tuple[Any, Callable[[], None]]:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(getCount=self.get_count), self.restore

    def get_count(self) -> int:
        if self.count < 0:
            raise ConnectionRefusedError
        return self.count

    def restore(self) -> None:
        self.restored += 1


@pytest.fixture
def sigterm() -> Iterator[Sigterm]:
    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    spark: Any = None
    yield Sigterm(spark)
    signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize("receiver", ["JVM", "Python"])
def test_signal_is_a_request_until_the_scheduler_stops_the_driver(
    monkeypatch: pytest.MonkeyPatch, sigterm: Sigterm, receiver: str
):
    jvm = Jvm(monkeypatch)
    sigterm.catch()
    assert not sigterm.is_requested()
    for _ in range(2):
        if receiver == "JVM":
            jvm.count = 0
        else:
            signal.raise_signal(signal.SIGTERM)
        assert sigterm.is_requested()
    jvm.count = -1
    assert sigterm.is_requested()
    sigterm.let_pass()
    sigterm.let_pass()
    assert jvm.restored == 1


@pytest.mark.parametrize("is_caught", [False, True])
def test_signal_ends_a_driver_that_runs_no_query_at_once(
    monkeypatch: pytest.MonkeyPatch, sigterm: Sigterm, is_caught: bool
):
    Jvm(monkeypatch)
    if is_caught:
        sigterm.catch()
        sigterm.let_pass()
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    os.kill(os.getpid(), signal.SIGTERM)
    assert (raised, signal.getsignal(signal.SIGTERM)) == ([signal.SIGTERM], signal.SIG_DFL)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_process_that_the_script_forks_ends_with_the_signal(monkeypatch: pytest.MonkeyPatch, sigterm: Sigterm):
    Jvm(monkeypatch)
    sigterm.catch()
    if (child := os.fork()) == 0:
        signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def test_handler_of_a_script_stays(sigterm: Sigterm):
    own = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spark: Any = None
    Sigterm(spark)
    assert signal.signal(signal.SIGTERM, own) is signal.SIG_IGN


def test_jvm_that_leaves_its_signals_to_others_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, sigterm: Sigterm, caplog: pytest.LogCaptureFixture
):
    Jvm(monkeypatch, Py4JError("Signal already used by VM or OS: SIGTERM"))
    sigterm.catch()
    assert not sigterm.is_requested()
    assert "SIGTERM ends this driver in the middle of a batch" in caplog.text
