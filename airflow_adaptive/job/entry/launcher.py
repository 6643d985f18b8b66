"""Runs the author's script as Python would.

The main program of a driver calls `launch`, which intercepts the script's queries.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE
from airflow_adaptive._core.protocol.failures import register_secrets
from airflow_adaptive._core.python_version import UnsupportedVersionError
from airflow_adaptive.job.entry import packages
from airflow_adaptive.job.spark_internals import require_supported

if TYPE_CHECKING:
    from airflow_adaptive.job.entry.unmanaged_script import UnmanagedScript


def launch(script: Path) -> None:
    """Run a script beside the main program; `sys.argv` has its arguments. Raises `SystemExit` with the exit code of the script or of the job."""
    _register_secret_variables()
    _set_secret_properties()
    _prepare_spark()
    error: BaseException | None = None
    script_watch = _intercept_queries(script)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException as raised:  # noqa: BLE001  (anything that can end a script)
        error = raised
    if script_watch is not None and script_watch.refusal is not None:
        error = script_watch.refusal
    if error is not None and not isinstance(error, SystemExit):
        _print_traceback(error, script)
    if error is None:
        _wait_for_threads()
    if script_watch is not None and script_watch.has_started:
        sys.exit(script_watch.finish(error))
    if isinstance(error, SystemExit):
        raise error
    if error is not None:
        sys.exit(1)


def _register_secret_variables() -> None:
    """Remove the values of secret environment variables from the reports of this process. The script reads the variables."""
    names: list[str] = json.loads(os.environ.pop(SECRET_ENV_VARIABLE, "[]"))
    register_secrets(os.environ[name] for name in names if name in os.environ)


def _set_secret_properties() -> None:
    """Set Spark properties from the environment on the JVM, because other users can read the arguments of a process."""
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRET_CONF_VARIABLE, "{}"))
    if not secrets:
        return
    from pyspark import SparkContext  # noqa: PLC0415  (a driver without pyspark fails when its script imports it)

    register_secrets(secrets.values())
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    for name, value in secrets.items():
        jvm.java.lang.System.setProperty(name, value)


def _prepare_spark() -> None:
    """Check the version of Spark, and resolve the packages of the job. A failure ends the driver, with the error as the last output."""
    try:
        with suppress(ImportError):  # a driver without pyspark fails when its script imports it
            import pyspark  # noqa: PLC0415

            require_supported(pyspark.__version__)
        packages.resolve_packages()
    except (UnsupportedVersionError, packages.PackagesError) as error:
        _print_traceback(error, Path(__file__))
        sys.exit(1)


def _intercept_queries(script: Path) -> UnmanagedScript | None:
    """Return the hooks for the script's queries, or None in a Python without pyspark, in which no query can start."""
    try:
        from airflow_adaptive.job.entry import unmanaged_script  # noqa: PLC0415
    except ImportError:
        return None
    return unmanaged_script.install_hooks(script, _submitted_properties())


def _submitted_properties() -> dict[str, str]:
    """Return the Spark properties of the submission, none if spark-submit has not started this process."""
    if packages.GATEWAY_VARIABLE not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  (a driver without pyspark fails when its script imports it)

    SparkContext._ensure_initialized()
    return dict(SparkConf(_jvm=SparkContext._jvm).getAll())


def _wait_for_threads() -> None:
    """Wait for the script's threads, as Python does before it exits: a thread may be about to start a query."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _print_traceback(error: BaseException, file: Path) -> None:
    """Print the traceback from the first frame in a file, like the failure report of a script."""
    error.with_traceback(_traceback_from(error.__traceback__, str(file)))
    sys.excepthook(type(error), error, error.__traceback__)


def _traceback_from(traceback: TracebackType | None, file: str) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    return traceback
