"""The embedded cluster: real processes on 127.0.0.1, of which nothing is left."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from airflow_adaptive.local import daemons, guardian
from airflow_adaptive.local.cluster import HOST, LocalCluster
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

TIMEOUT_S = 240.0


def alive(cluster: LocalCluster) -> set[str]:
    return {worker["id"] for worker in cluster.state()["workers"] if worker["state"] == "ALIVE"}


def processes_in(directory: Path) -> list[psutil.Process]:
    """Processes that a cluster with this directory has started."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(directory) in " ".join(process.info["cmdline"] or ())
    ]


def test_workers_come_and_go(spark_cluster: LocalCluster) -> None:
    small, large = spark_cluster.add_worker(), spark_cluster.add_worker(cores=3, memory_mb=2048)
    assert alive(spark_cluster) == {small.worker_id, large.worker_id}
    assert {worker["cores"] for worker in spark_cluster.state()["workers"] if worker["state"] == "ALIVE"} == {1, 3}
    spark_cluster.remove_worker(small)
    assert alive(spark_cluster) == {large.worker_id}
    spark_cluster.kill_worker(large)
    assert alive(spark_cluster) == set()
    assert spark_cluster.workers == ()
    with pytest.raises(LocalClusterError, match="worker-.* is not a running worker"):
        spark_cluster.kill_worker(large)


@pytest.mark.long
def test_everything_listens_on_this_machine_only(spark_cluster: LocalCluster) -> None:
    worker = spark_cluster.add_worker()
    parent = psutil.Process(worker.pid).parent()
    assert parent is not None
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in (psutil.Process(worker.pid), *parent.children())
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {HOST}


def test_unknown_driver_can_not_be_killed(spark_cluster: LocalCluster) -> None:
    with pytest.raises(LocalClusterError, match="driver-1"):
        spark_cluster.kill_driver("driver-1", timeout_s=0)


def test_cluster_that_is_not_running_reports_it(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    with pytest.raises(LocalClusterError, match=r"call start\(\)"):
        _ = cluster.master_url
    cluster.stop()


@pytest.mark.long
@pytest.mark.parametrize("is_guardian_killed", [False, True])
def test_stopped_cluster_leaves_logs_only_and_can_start_again(tmp_path: Path, is_guardian_killed: bool) -> None:
    directory = tmp_path / "my cluster"
    cluster = LocalCluster(directory)
    for _ in range(1 if is_guardian_killed else 2):
        with cluster:
            with pytest.raises(LocalClusterError, match="runs already"):
                cluster.start()
            master, guard = sorted(processes_in(directory), key=lambda it: guardian.__file__ in it.cmdline())
            assert guardian.__file__ in guard.cmdline()
            assert master.is_running()
            if is_guardian_killed:
                guard.kill()
            else:
                cluster.add_worker()
        assert processes_in(directory) == []
    assert (directory / "logs" / "master.log").stat().st_size > 0
    assert (directory / "scratch").exists() == is_guardian_killed  # The guardian deletes it.


@pytest.mark.long
def test_temporary_directory_goes_with_an_exception() -> None:
    cluster = LocalCluster()
    with pytest.raises(KeyboardInterrupt), cluster:
        raise KeyboardInterrupt
    assert not cluster.directory.exists()


@pytest.mark.long
def test_port_that_stays_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        cluster = LocalCluster(properties={"spark.master.rest.port": str(taken.getsockname()[1])})
        with pytest.raises(LocalClusterError, match="no free ports"):
            cluster.start()
    assert not cluster.directory.exists()


@pytest.mark.long
def test_master_that_does_not_start_shows_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of the start begins after the master has written its error, however long the JVM takes until then."""
    log = tmp_path / "logs" / "master.log"

    def wait_after_error(condition: Callable[[], object], timeout_s: float, what: str) -> object:
        wait_until(lambda: "no.such.Filter" in log.read_text(), TIMEOUT_S, "the error in the log")
        return wait_until(condition, timeout_s, what)

    monkeypatch.setattr(daemons, "wait_until", wait_after_error)
    cluster = LocalCluster(tmp_path, properties={"spark.master.rest.filters": "no.such.Filter"}, start_timeout_s=5)
    with pytest.raises(LocalClusterError, match=r"(?s)start of master: not within 5 s.*no\.such\.Filter"):
        cluster.start()


def test_master_that_ends_shows_its_log() -> None:
    cluster = LocalCluster(daemon_memory_mb=1)
    with pytest.raises(LocalClusterError, match=r"(?s)master ended with exit code 1.*Too small maximum heap"):
        cluster.start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let new processes receive SIGINT, also if this process was started with SIGINT ignored, as in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def command(directory: Path, workers: int) -> Iterator[subprocess.Popen[str]]:
    """The command line's cluster, up."""
    arguments = ["cluster", "--workers", str(workers), "--directory", str(directory)]
    with interruptible():
        started = subprocess.Popen(
            [sys.executable, "-m", "airflow_adaptive.local", *arguments], stdout=subprocess.PIPE, text=True
        )
    with started as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(7)]
            firsts = ["master", "REST", "UI", "logs", "Airflow's", "export", "Press"]
            assert [line.split()[0] for line in lines] == firsts
            yield process
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize(("sign", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 0)])
def test_command_ends_in_order_and_leaves_nothing(tmp_path: Path, sign: signal.Signals, workers: int) -> None:
    with command(tmp_path, workers) as process:
        assert len(processes_in(tmp_path)) == 3 + workers  # the command, the guardian, the master and the workers
        process.send_signal(sign)
        assert process.wait(TIMEOUT_S) == 0
        assert processes_in(tmp_path) == []


def test_killed_command_leaves_nothing(tmp_path: Path) -> None:
    with command(tmp_path, workers=1) as process:
        process.kill()
    wait_until(lambda: not processes_in(tmp_path), TIMEOUT_S, "the end of the cluster")
    wait_until(lambda: not (tmp_path / "scratch").exists(), TIMEOUT_S, "the removal of its files")


def test_command_names_what_is_missing(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "airflow_adaptive.local", "cluster"],
        env={"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "has no bin/java" in answer.stderr
    assert "Traceback" not in answer.stderr
