"""Flink with its adaptive scheduler: from the wheel, in an environment of its own, on 127.0.0.1.

One JobManager and two TaskManagers with a slot each. They run all the time, but where a case kills one: the bounds of the job
(`PUT /jobs/<id>/resource-requirements`, FLIP-291), as with us.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from airflow_adaptive.local.cluster import HOST, free_port
from airflow_adaptive.local.distribution import find_java
from airflow_adaptive.local.waiting import wait_until
from tests.lab.benchmarks.rescale import processes

VERSION: Final = "2.3.0"
PACKAGE: Final = f"apache-flink=={VERSION}"

INSTALL_TIMEOUT_S: Final = 900.0
START_TIMEOUT_S: Final = 240.0
HTTP_TIMEOUT_S: Final = 10.0
LOOK_S: Final = 0.1

SLOTS: Final = 2

CHECKPOINT_INTERVAL: Final = "1 s"

ZOOKEEPER_SESSION: Final = "5 s"
"""How long Flink believes in a JobManager that is silent. Its default is 60 s, and the comparison should not consist of this wait."""


class FlinkMissingError(RuntimeError):
    """Flink is not available for the comparison. The message contains the reason."""


def find(environment: Path) -> Path:
    """Flink's home in an environment.

    Raises:
        FlinkMissingError: it is not there.
    """
    if found := _home(environment):
        return found
    raise FlinkMissingError(f"{PACKAGE} could not be installed, see {_log(environment).name}")


def install(environment: Path) -> None:
    """Install Flink with pip if it is not there; if the installation fails, a log beside the environment contains the reason."""
    if _home(environment):
        return
    environment.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(environment, ignore_errors=True)
    steps = [sys.executable, "-m", "venv", str(environment)], [str(environment / "bin" / "pip"), "install", PACKAGE]
    with _log(environment).open("w") as log:
        try:
            for step in steps:
                subprocess.run(step, check=True, stdout=log, stderr=log, timeout=INSTALL_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            log.write(f"{error}\n")


def _log(environment: Path) -> Path:
    return environment.with_suffix(".log")


def _home(environment: Path) -> Path | None:
    homes = environment.glob("lib/python*/site-packages/pyflink/bin/flink")
    metadata = list(environment.glob(f"lib/python*/site-packages/apache_flink-{VERSION}.dist-info/RECORD"))
    return next((flink.parents[1] for flink in homes if metadata), None)


def configuration(folder: Path, scratch: Path, ports: Mapping[str, int], java_options: str, *, is_ha: bool) -> str:
    """`config.yaml`: flat keys, as Flink takes them too.

    Args:
        folder: for what it keeps.
        scratch: for what it does not; RocksDB makes the name of a file of its whole path, which must not be long.
        ports: rpc, blob, rest and zookeeper.
        java_options: what opens Java's modules.
        is_ha: whether a JobManager that starts continues the jobs of one that was killed.
    """
    options = {
        "env.java.opts.all": java_options,
        "jobmanager.scheduler": "adaptive",
        "jobmanager.rpc.address": HOST,
        "jobmanager.bind-host": HOST,
        "jobmanager.rpc.port": ports["rpc"],
        "jobmanager.memory.process.size": "1200m",
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 s",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
        "blob.server.port": ports["blob"],
        "rest.address": HOST,
        "rest.bind-address": HOST,
        "rest.port": ports["rest"],
        "rest.bind-port": ports["rest"],
        "taskmanager.host": HOST,
        "taskmanager.bind-host": HOST,
        "taskmanager.numberOfTaskSlots": 1,
        "taskmanager.memory.process.size": "1200m",
        "parallelism.default": SLOTS,
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "1 s",  # each failure is the first of a healthy job
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "io.tmp.dirs": scratch,
    }
    if is_ha:
        options |= {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": f"{HOST}:{ports['zookeeper']}",
            "high-availability.storageDir": (folder / "ha").as_uri(),
            "high-availability.zookeeper.client.session-timeout": ZOOKEEPER_SESSION,
            "high-availability.jobmanager.port": ports["rpc"],
        }
    return "".join(f"{name}: {value}\n" for name, value in options.items())


def java_options(shipped: str) -> str:
    """What opens Java's modules, from the configuration that Flink ships."""
    found = re.search(r"^\s*all:\s*(--add-.*)$", shipped, re.MULTILINE)
    return found[1] if found else ""


class Flink:
    """A cluster with one job; a context manager, which ends all of it."""

    def __init__(self, home: Path, folder: Path, *, is_ha: bool = False) -> None:
        """Describe it; nothing is started yet.

        Args:
            home: with `bin`, `lib` and `conf`.
            folder: for all that it writes.
            is_ha: with ZooKeeper, so that a new JobManager continues the job.
        """
        self._home = home
        self._folder = folder
        self._is_ha = is_ha
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: list[subprocess.Popen[bytes]] = []
        self._ports = {name: free_port() for name in ("rpc", "blob", "rest", "zookeeper")}
        self._scratch = tempfile.TemporaryDirectory(prefix="flink-", ignore_cleanup_errors=True)
        self._job = ""
        self._wide: frozenset[str] = frozenset()
        self._env = {
            "FLINK_CONF_DIR": str(folder / "conf"),
            "FLINK_LOG_DIR": str(folder / "log"),
            "FLINK_PID_DIR": str(folder),
            "TZ": "UTC",
            "PATH": f"{_python(home).parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(find_java()),
        }

    def __enter__(self) -> Self:
        for name in ("log", "checkpoints"):
            (self._folder / name).mkdir(parents=True)
        conf = self._folder / "conf"
        shutil.copytree(self._home / "conf", conf)
        java = java_options((conf / "config.yaml").read_text())
        options = configuration(self._folder, Path(self._scratch.name), self._ports, java, is_ha=self._is_ha)
        (conf / "config.yaml").write_text(options)
        if self._is_ha:
            peer = f"server.1={HOST}:{free_port()}:{free_port()}"
            (conf / "zoo.cfg").write_text(
                f"tickTime=1000\ninitLimit=10\nsyncLimit=5\ndataDir={self._folder / 'zookeeper'}\nclientPort={self._ports['zookeeper']}\n"
                f"clientPortAddress={HOST}\nadmin.enableServer=false\n{peer}\n"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        processes.end([*self._daemons.values(), *self._clients])
        self._scratch.cleanup()

    @property
    def log(self) -> Path:
        """What the JobManager says."""
        return self._folder / "log" / "jobmanager.out"

    def start(self) -> None:
        """Start JobManager and TaskManagers, and wait for their slots."""
        if self._is_ha:
            self.start_process("zookeeper")
        for name in ("jobmanager", *(f"taskmanager-{number}" for number in range(SLOTS))):
            self.start_process(name)
        self._wait(lambda: self._answers() and self._get("/overview")["slots-total"] == SLOTS, "Flink's slots")

    def start_process(self, name: str) -> None:
        """Start a process: "zookeeper", "jobmanager" or "taskmanager-<n>", again if it was killed."""
        script = self._home / "bin" / f"{name.partition('-')[0]}.sh"
        command = [str(script), "start-foreground", *(["1"] if name == "zookeeper" else [])]
        self._daemons[name] = processes.start(command, self._folder / "log" / f"{name}.out", env=self._env)

    def kill(self, name: str) -> float:
        """Kill a process with -9, and start it again at once, as a process manager does. Return the time of the kill."""
        at = time.time()
        os.killpg(self._daemons[name].pid, signal.SIGKILL)
        self._daemons[name].wait()
        self.start_process(name)
        return at

    def submit(self, script: Path, *arguments: Path | str, savepoint: str = "") -> None:
        """Start the job, from a savepoint if there is one, and wait until all of its tasks run."""
        python = str(_python(self._home))
        flink = str(self._home / "bin" / "flink")
        command = [flink, "run", "-d", "-pyexec", python, "-pyclientexec", python]
        command += [*(("-s", savepoint) if savepoint else ()), "-py", str(script)]
        log = self._folder / "log" / "submit.out"
        client = processes.start([*command, *map(str, arguments)], log, env=self._env)
        self._clients.append(client)
        wait_until(lambda: client.poll() is not None, START_TIMEOUT_S, "Flink's client")
        if client.returncode:
            raise RuntimeError(f"Flink's client ended with {client.returncode}: {log.read_text()[-1000:]}")
        (job,) = (it for it in self._get("/jobs/overview")["jobs"] if it["state"] not in {"FINISHED", "CANCELED"})
        self._job = job["jid"]
        bounds = self._get(f"/jobs/{self._job}/resource-requirements")
        self._wide = frozenset(it for it, status in bounds.items() if status["parallelism"]["upperBound"] > 1)
        self.wait_running(SLOTS)

    def stop(self) -> str:
        """Stop the job with a savepoint, and return where the savepoint is."""
        path, body = f"/jobs/{self._job}/stop", {"targetDirectory": str(self._folder / "savepoints"), "drain": False}
        answer = httpx.post(self._url(path), json=body, timeout=HTTP_TIMEOUT_S, trust_env=False).raise_for_status()
        trigger = f"/jobs/{self._job}/savepoints/{answer.json()['request-id']}"
        wait_until(
            lambda: self._get(trigger)["status"]["id"] == "COMPLETED", START_TIMEOUT_S, "Flink's savepoint", LOOK_S
        )
        location: str = self._get(trigger)["operation"]["location"]
        return location

    def request(self, slots: int) -> None:
        """Change the bounds: each vertex may have so many subtasks, if it could have more than one at all, unlike a committer."""
        path = f"/jobs/{self._job}/resource-requirements"
        bounds = {
            vertex: {"parallelism": {"lowerBound": 1, "upperBound": slots if vertex in self._wide else 1}}
            for vertex in self._get(path)
        }
        httpx.put(self._url(path), json=bounds, timeout=HTTP_TIMEOUT_S, trust_env=False).raise_for_status()

    def checkpoints(self) -> int:
        """How many were completed."""
        counted: int = self._get(f"/jobs/{self._job}/checkpoints")["counts"]["completed"]
        return counted

    def wait_running(self, slots: int) -> None:
        """Wait until all tasks run, so many of each vertex that can have more than one."""
        self._wait(lambda: self._runs_on(slots), f"Flink's job on {slots} slot(s)")

    def _runs_on(self, slots: int) -> bool:
        status = self._get(f"/jobs/{self._job}")
        if status["state"] in {"FAILED", "CANCELED"}:
            raise RuntimeError(f"Flink's job is {status['state']}")
        vertices = status["vertices"]
        widths = {vertex["parallelism"] for vertex in vertices if vertex["id"] in self._wide}
        return widths == {slots} and all(vertex["tasks"]["RUNNING"] == vertex["parallelism"] for vertex in vertices)

    def _wait(self, condition: Any, what: str) -> None:
        def met() -> bool:
            if any(process.poll() is not None for process in self._daemons.values()):
                raise RuntimeError(f"a process of Flink has ended: {self.log.read_text()[-1000:]}")
            return bool(condition())

        wait_until(met, START_TIMEOUT_S, what, LOOK_S)

    def _answers(self) -> bool:
        try:
            self._get("/overview")
        except httpx.HTTPError:
            return False
        return True

    def _get(self, path: str) -> Any:
        return httpx.get(self._url(path), timeout=HTTP_TIMEOUT_S, trust_env=False).raise_for_status().json()

    def _url(self, path: str) -> str:
        return f"http://{HOST}:{self._ports['rest']}{path}"


def _python(home: Path) -> Path:
    """Of the environment in which Flink is: <environment>/lib/python*/site-packages/pyflink."""
    return home.parents[3] / "bin" / "python"
