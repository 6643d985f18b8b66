"""Flink with its adaptive scheduler: from the wheel, in an environment of its own, on 127.0.0.1.

One JobManager and two TaskManagers with a slot each. Both run all the time: the bounds of the job
(`PUT /jobs/<id>/resource-requirements`, FLIP-291), as with us.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
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
START_TIMEOUT_S: Final = 90.0
HTTP_TIMEOUT_S: Final = 10.0
LOOK_S: Final = 0.1

SLOTS: Final = 2

CHECKPOINT_INTERVAL: Final = "1 s"


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


def configuration(folder: Path, scratch: Path, ports: Mapping[str, int], java_options: str) -> str:
    """`config.yaml`: flat keys, as Flink takes them too.

    Args:
        folder: for what it keeps.
        scratch: for what it does not; RocksDB makes the name of a file of its whole path, which must not be long.
        ports: rpc, blob and rest.
        java_options: what opens Java's modules.
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
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "io.tmp.dirs": scratch,
    }
    return "".join(f"{name}: {value}\n" for name, value in options.items())


def java_options(shipped: str) -> str:
    """What opens Java's modules, from the configuration that Flink ships."""
    found = re.search(r"^\s*all:\s*(--add-.*)$", shipped, re.MULTILINE)
    return found[1] if found else ""


class Flink:
    """A cluster with one job; a context manager, which ends all of it."""

    def __init__(self, home: Path, folder: Path) -> None:
        """Describe it; nothing is started yet.

        Args:
            home: with `bin`, `lib` and `conf`.
            folder: for all that it writes.
        """
        self._home = home
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = {name: free_port() for name in ("rpc", "blob", "rest")}
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
        options = configuration(
            self._folder, Path(self._scratch.name), self._ports, java_options((conf / "config.yaml").read_text())
        )
        (conf / "config.yaml").write_text(options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        processes.end(self._processes)
        self._scratch.cleanup()

    @property
    def log(self) -> Path:
        """What the JobManager says."""
        return self._folder / "log" / "jobmanager.out"

    def start(self) -> None:
        """Start JobManager and TaskManagers, and wait for their slots."""
        self._daemon("jobmanager", "jobmanager.sh")
        for number in range(SLOTS):
            self._daemon(f"taskmanager-{number}", "taskmanager.sh", f"-Dtaskmanager.resource-id=tm-{number}")
        self._wait(lambda: self._answers() and self._get("/overview")["slots-total"] == SLOTS, "Flink's slots")

    def submit(self, script: Path, *arguments: Path | str) -> None:
        """Start the job and wait until all of its tasks run."""
        python = str(_python(self._home))
        flink = str(self._home / "bin" / "flink")
        command = [flink, "run", "-d", "-pyexec", python, "-pyclientexec", python, "-py", str(script)]
        log = self._folder / "log" / "submit.out"
        client = processes.start([*command, *map(str, arguments)], log, env=self._env)
        self._processes.append(client)
        wait_until(lambda: client.poll() is not None, START_TIMEOUT_S, "Flink's client")
        if client.returncode:
            raise RuntimeError(f"Flink's client ended with {client.returncode}: {log.read_text()[-1000:]}")
        (job,) = self._get("/jobs/overview")["jobs"]
        self._job = job["jid"]
        bounds = self._get(f"/jobs/{self._job}/resource-requirements")
        self._wide = frozenset(it for it, status in bounds.items() if status["parallelism"]["upperBound"] > 1)
        self.wait_running(SLOTS)

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

    def _daemon(self, name: str, script: str, *arguments: str) -> None:
        command = [str(self._home / "bin" / script), "start-foreground", *arguments]
        self._processes.append(processes.start(command, self._folder / "log" / f"{name}.out", env=self._env))

    def _wait(self, condition: Any, what: str) -> None:
        def met() -> bool:
            if any(process.poll() is not None for process in self._processes[: SLOTS + 1]):
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
