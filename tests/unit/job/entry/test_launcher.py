"""The program that runs a script is not seen: not by the script, and not by who reads what it wrote last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_adaptive._core.protocol.failures import python_errors
from airflow_adaptive._engine.staging import MAIN_PROGRAM, runtime_zip
from airflow_adaptive.job.entry import launcher, unmanaged_script
from airflow_adaptive.job.entry.launcher import launch
from airflow_adaptive.job.queries.writers import AdaptiveJobError

WITH_PYSPARK, WITHOUT = ("-W", "error"), ("-S", "-W", "error")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "airflow_adaptive.zip"
    path.write_bytes(runtime_zip())
    return path


@pytest.fixture
def run(tmp_path, runtime):
    def run(
        source: str, *arguments: str, options: tuple[str, ...] = WITHOUT, **env: str
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "departures.py").write_text(source)
        program = tmp_path / "run_departures.py"
        program.write_text(MAIN_PROGRAM.format(script="departures.py"))
        command = [sys.executable, *options, str(program), *arguments]
        return subprocess.run(
            command, env={"PYTHONPATH": str(runtime)} | env, capture_output=True, text=True, check=False
        )

    return run


def test_script_runs_as_in_python(run, tmp_path):
    ran = run("import sys\nprint(__name__, __file__, sys.argv, sys.path[0])", "--from", "1")
    script = str(tmp_path / "departures.py")
    assert ran.stdout == f"__main__ {script} {[script, '--from', '1']} {tmp_path}\n"
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("options", [WITH_PYSPARK, WITHOUT])
def test_script_that_raises_prints_the_traceback_of_python(run, tmp_path, options):
    ran = run("def fly():\n    raise ValueError('no such airport')\n\nfly()\n", options=options)
    assert ran.returncode == 1
    assert "run_departures.py" not in ran.stderr
    assert "runpy" not in ran.stderr
    raised = next(iter(python_errors(ran.stderr)), None)
    assert raised is not None
    assert (raised.name, raised.message, raised.place) == ("ValueError", "no such airport", "departures.py:2")
    assert ran.stderr.startswith(f'Traceback (most recent call last):\n  File "{tmp_path}/departures.py", line 4')


@pytest.mark.parametrize(
    ("source", "module", "line"),
    [("import sys\n\nimport airports\n", "airports", 3), ("from pyspark.sql import SparkSession\n", "pyspark", 1)],
)
def test_module_that_is_missing_is_reported_with_the_line_of_the_script(run, source, module, line):
    raised = next(iter(python_errors(run(source).stderr)), None)
    assert raised is not None
    expected = ("ModuleNotFoundError", f"No module named '{module}'", f"departures.py:{line}")
    assert (raised.name, raised.message, raised.place) == expected


def test_syntax_error_that_only_the_workers_python_has_is_reported_with_its_line(run):
    ran = run("x = 1\nif x\n")
    assert ran.returncode == 1
    assert 'departures.py", line 2' in ran.stderr
    assert "run_departures.py" not in ran.stderr


@pytest.mark.parametrize(
    ("argument", "code", "stderr"), [("", 0, ""), ("0", 0, ""), ("3", 3, ""), ("'no', ", 1, "no\n")]
)
def test_script_chooses_its_exit_code(run, argument, code, stderr):
    ran = run(f"import sys\nsys.exit({argument.removesuffix(', ')})\n")
    assert (ran.returncode, ran.stderr) == (code, stderr)


def test_launcher_waits_for_the_threads_of_the_script(run):
    ran = run("import threading\nthreading.Timer(0.1, print, ['last']).start()\nprint('first')\n")
    assert (ran.returncode, ran.stdout) == (0, "first\nlast\n")


def test_script_reads_secret_variables_and_reports_do_not_contain_their_values(run):
    source = "import os\nfrom airflow_adaptive._core.protocol.failures import redact\nprint(redact('login ' + os.environ['DB_LOGIN']))\n"
    ran = run(source, DB_LOGIN="hush-hush", AIRFLOW_ADAPTIVE_SECRET_ENV='["DB_LOGIN", "GONE"]')
    assert (ran.returncode, ran.stdout) == (0, "login ***\n")


@pytest.mark.parametrize(("source", "error"), [("", None), ("raise KeyError('gate')", "KeyError")])
def test_script_that_has_started_a_query_ends_when_the_queries_end(tmp_path, monkeypatch, source, error):
    """tests/integration/spark starts real queries."""
    ends: list[str | None] = []

    def finish(raised: BaseException | None) -> int:
        ends.append(None if raised is None else type(raised).__name__)
        return 7

    watch = SimpleNamespace(has_started=True, refusal=None, finish=finish)
    monkeypatch.setattr(unmanaged_script, "install_hooks", lambda *_: watch)
    monkeypatch.setattr(
        launcher, "_wait_for_threads", lambda: None
    )  # the servers of other tests in this process run on
    script = tmp_path / "departures.py"
    script.write_text(source)
    with pytest.raises(SystemExit) as ended:
        launch(script)
    assert (ended.value.code, ends) == (7, [error])


def test_refused_session_is_why_a_script_that_caught_the_error_ends(tmp_path, monkeypatch, capsys):
    refused = AdaptiveJobError("the script sets the master")
    watch = SimpleNamespace(has_started=False, refusal=refused)
    monkeypatch.setattr(unmanaged_script, "install_hooks", lambda *_: watch)
    monkeypatch.setattr(launcher, "_wait_for_threads", lambda: None)
    script = tmp_path / "departures.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit) as ended:
        launch(script)
    assert ended.value.code == 1
    assert "AdaptiveJobError: the script sets the master" in capsys.readouterr().err


def test_an_old_spark_ends_the_driver_before_the_script_runs(run, tmp_path):
    (tmp_path / "pyspark.py").write_text("__version__ = '3.5.6'\n")
    ran = run("print('the script runs')")
    raised = next(iter(python_errors(ran.stderr)), None)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert raised is not None
    assert raised.name == "airflow_adaptive._core.python_version.UnsupportedVersionError"
    assert raised.message.startswith("the driver runs Spark 3.5.6, and airflow-adaptive supports Spark 4.0 and later")
