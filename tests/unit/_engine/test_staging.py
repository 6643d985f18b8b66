"""Staging: code arrives whole, once, and under a name that its content gives it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import airflow_adaptive
from airflow_adaptive._core.ports import JobDirectoryError, UnavailableError
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.policies.first_batch import DeploymentRecord
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive._engine.staging import StagingError, remove_unused_code, runtime_zip, stage
from tests.lab.simulation.one_job import small_job

if TYPE_CHECKING:
    from s3fs import S3FileSystem

pytestmark = pytest.mark.asyncio


@pytest.fixture
def directory(tmp_path: Path) -> FsspecJobDirectory:
    return FsspecJobDirectory(Storage.at(str(tmp_path / "jobs")), "flights")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path / "departures.py", "print('hello')\n")


def write(path: Path, source: str) -> Path:
    path.write_text(source)
    return path


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


async def test_staged_files_hold_what_the_author_wrote(
    directory: FsspecJobDirectory, script: Path, tmp_path: Path
) -> None:
    helper = write(tmp_path / "helper.py", "ANSWER = 42\n")
    staged = await stage(directory, script, [helper])
    assert [local(uri).name for uri in staged.py_files] == ["airflow_adaptive.zip", "departures.py", "helper.py"]
    assert local(staged.py_files[1]).read_bytes() == script.read_bytes()
    assert local(staged.py_files[2]).read_bytes() == helper.read_bytes()
    assert {local(uri).parent.parent for uri in (staged.script, *staged.py_files)} == {local(directory.uri) / "code"}


async def test_staging_again_changes_nothing(directory: FsspecJobDirectory, script: Path) -> None:
    staged = await stage(directory, script)
    before = local(staged.script).stat()
    assert await stage(directory, script) == staged
    after = local(staged.script).stat()  # it may have been read
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_changed_code_gets_a_folder_of_its_own(directory: FsspecJobDirectory, script: Path) -> None:
    first = await stage(directory, script)
    write(script, "print('goodbye')\n")
    second = await stage(directory, script)
    assert second.script != first.script
    assert local(first.py_files[1]).read_text() == "print('hello')\n"


async def test_code_under_other_names_gets_a_folder_of_its_own(
    directory: FsspecJobDirectory, script: Path, tmp_path: Path
) -> None:
    """The content is equal, but another module can be imported."""
    first = await stage(directory, script, [write(tmp_path / "before.py", "ANSWER = 42\n")])
    second = await stage(directory, script, [write(tmp_path / "behind.py", "ANSWER = 42\n")])
    assert local(first.script).parent != local(second.script).parent


async def test_code_is_staged_to_an_object_store(s3: S3FileSystem, bucket: str, script: Path) -> None:
    staged = await stage(FsspecJobDirectory(Storage(s3, f"{bucket}/jobs"), "flights"), script)
    assert staged.script.startswith(f"s3a://{bucket}/jobs/flights/code/")
    assert s3.cat_file(staged.py_files[1].removeprefix("s3a://")) == script.read_bytes()


async def test_main_program_runs_the_script_beside_it(directory: FsspecJobDirectory, script: Path) -> None:
    staged = await stage(directory, script)
    assert local(staged.script) == local(staged.py_files[1]).with_name("run_departures.py")
    runtime = str(local(staged.py_files[0]))
    arguments = [sys.executable, "-W", "error", str(local(staged.script))]
    ran = subprocess.run(arguments, env={"PYTHONPATH": runtime}, capture_output=True, text=True, check=True)
    assert ran.stdout == "hello\n"


async def test_module_with_the_name_of_the_main_program_is_refused(
    directory: FsspecJobDirectory, script: Path, tmp_path: Path
) -> None:
    module = write(tmp_path / "run_departures.py", "")
    with pytest.raises(StagingError, match=r"'run_departures.py' is the name of the program that runs 'departures.py'"):
        await stage(directory, script, [module])


async def test_missing_script_is_named(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    with pytest.raises(StagingError, match=r"nowhere.py' cannot be read where Airflow runs \(No such file"):
        await stage(directory, tmp_path / "nowhere.py")


async def test_file_that_cannot_be_read_is_reported_with_its_remedy(
    directory: FsspecJobDirectory, script: Path, tmp_path: Path
) -> None:
    with pytest.raises(StagingError, match=r"Is a directory\): name a file, for example a zip file of the folder"):
        await stage(directory, script, [tmp_path])
    with pytest.raises(StagingError, match=r"'job.py' cannot be read .*: use an absolute path"):
        await stage(directory, Path("job.py"))


class FailingPath:
    """A path on an object store whose library raises an exception of its own."""

    name, suffix = "job.py", ".py"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __str__(self) -> str:
        return "s3://aws@bucket/job.py"

    def read_bytes(self) -> bytes:
        raise self._error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError("Forbidden"), "(Forbidden): allow the user of Airflow, or the connection in the URI, to read"),
        (FileNotFoundError("bucket/job.py"), "(bucket/job.py): check the URI"),
    ],
)
async def test_refusal_of_an_object_store_is_final(
    directory: FsspecJobDirectory, error: Exception, message: str
) -> None:
    with pytest.raises(
        StagingError, match=re.escape(f"'s3://aws@bucket/job.py' cannot be read where Airflow runs {message}")
    ):
        await stage(directory, FailingPath(error))


async def test_other_error_of_an_object_store_may_be_an_outage(directory: FsspecJobDirectory) -> None:
    failure = RuntimeError("no answer")
    with pytest.raises(
        UnavailableError, match=r"'s3://aws@bucket/job.py' cannot be read now \(RuntimeError: no answer\)"
    ):
        await stage(directory, FailingPath(failure))


async def test_script_that_does_not_compile_is_named_with_its_line(
    directory: FsspecJobDirectory, tmp_path: Path
) -> None:
    script = write(tmp_path / "broken.py", "x = 1\nif x\n")
    with pytest.raises(StagingError, match=r"broken.py:2: expected ':'"):
        await stage(directory, script)


async def test_script_that_is_no_text_is_named(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    script = tmp_path / "binary.py"
    script.write_bytes(b"\x00\x01")
    with pytest.raises(StagingError, match=r"binary.py"):
        await stage(directory, script)


async def test_archives_are_copied_as_they_are(directory: FsspecJobDirectory, script: Path, tmp_path: Path) -> None:
    archive = tmp_path / "helpers.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    staged = await stage(directory, script, [archive])
    assert local(staged.py_files[2]).read_bytes() == archive.read_bytes()


async def test_other_files_need_not_be_python(directory: FsspecJobDirectory, script: Path, tmp_path: Path) -> None:
    template = write(tmp_path / "template.py", "{{ values }} here\n")
    staged = await stage(directory, script, files=[template])
    assert local(staged.files[template]).read_bytes() == template.read_bytes()
    assert staged.files[template] not in staged.py_files


async def test_files_of_one_name_are_refused(directory: FsspecJobDirectory, script: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    duplicate = write(tmp_path / "other" / script.name, "")
    with pytest.raises(StagingError, match=r"two files of the job have the name 'departures.py'"):
        await stage(directory, script, [duplicate])


async def test_damaged_copy_is_named(directory: FsspecJobDirectory, script: Path) -> None:
    staged = await stage(directory, script)
    local(staged.script).write_text("print('another author')\n")
    with pytest.raises(StagingError, match="is damaged: remove the file"):
        await stage(directory, script)


async def test_runtime_zip_contains_the_driver_side_only_with_every_subpackage() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(runtime_zip())).namelist())
    root = Path(airflow_adaptive.__file__).parent
    core = (root / "_core" / name for name in ("__init__.py", "codec.py", "failure_code.py", "python_version.py"))
    modules = [root / "__init__.py", *core, *(root / "_core/protocol").rglob("*.py"), *(root / "job").rglob("*.py")]
    assert names == {str(file.relative_to(root.parent)) for file in modules}
    assert {name for name in names if name.count("/") == 3} >= {
        f"airflow_adaptive/job/{package}/__init__.py" for package in ("control", "entry", "queries", "state")
    }


async def test_runtime_is_importable_from_its_zip_alone(directory: FsspecJobDirectory, script: Path) -> None:
    staged = await stage(directory, script)
    program = "import sys; sys.path.insert(0, sys.argv[1]); import airflow_adaptive.job.control.driver_loop as module; print(module.__file__)"
    arguments = [sys.executable, "-I", "-S", "-c", program, str(local(staged.py_files[0]))]
    imported = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "airflow_adaptive.zip" in imported.stdout


# ---- code that no deployment uses -----------------------------------------------------------------------------------

TODAY = date(2013, 1, 31)


async def deploy(
    directory: FsspecJobDirectory, script: Path, source: str, day: date, state: SchedulerState | None = None
) -> JobSpec:
    """Deploy a job with this script on a day."""
    code = await stage(directory, write(script, source))
    spec = replace(small_job("flights", (1, 1), {}), script=code.script, py_files=code.py_files)
    await remove_unused_code(directory, spec, state, day)
    return spec


def is_staged(spec: JobSpec) -> bool:
    return local(spec.script).exists()


async def test_code_that_no_deployment_uses_is_removed_after_a_week(
    directory: FsspecJobDirectory, script: Path
) -> None:
    first = await deploy(directory, script, "1\n", TODAY)
    second = await deploy(directory, script, "2\n", TODAY + timedelta(days=6))
    assert is_staged(first)
    third = await deploy(directory, script, "3\n", TODAY + timedelta(days=7))
    assert [is_staged(spec) for spec in (first, second, third)] == [False, True, True]
    assert not local(first.script).parent.exists()


async def test_code_of_the_running_driver_and_of_the_current_deployment_stays(
    directory: FsspecJobDirectory, script: Path
) -> None:
    """A driver runs for weeks while the DAG changes twice: its executors still fetch the code with which it was started."""
    first = await deploy(directory, script, "1\n", TODAY)
    second = await deploy(directory, script, "2\n", TODAY)
    other = await deploy(directory, script, "3\n", TODAY)
    state = replace(
        machine.create(first.graph, first.options, deployment=second.deployment),
        proved=DeploymentRecord(deployment=first.deployment),
    )
    newest = await deploy(directory, script, "4\n", TODAY + timedelta(days=60), state)
    assert [is_staged(spec) for spec in (first, second, other, newest)] == [True, True, False, True]


async def test_code_that_is_staged_again_is_used_again(directory: FsspecJobDirectory, script: Path) -> None:
    first = await deploy(directory, script, "1\n", TODAY)
    await deploy(directory, script, "1\n", TODAY + timedelta(days=30))
    await deploy(directory, script, "2\n", TODAY + timedelta(days=31))
    assert is_staged(first)


async def test_code_of_a_deployment_that_died_is_removed_a_week_after_it_was_found(
    directory: FsspecJobDirectory, script: Path
) -> None:
    dead = await stage(directory, script)
    for days, expected in [(0, True), (6, True), (7, False)]:
        await deploy(directory, script, "2\n", TODAY + timedelta(days=days))
        assert local(dead.script).exists() is expected


async def test_deployment_succeeds_if_old_code_cannot_be_removed(
    directory: FsspecJobDirectory, script: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(folder: str) -> None:
        raise JobDirectoryError("no permission")

    await deploy(directory, script, "1\n", TODAY)
    monkeypatch.setattr(directory, "remove_folder", refuse)
    assert is_staged(await deploy(directory, script, "2\n", TODAY + timedelta(days=30)))
    assert "The code of earlier deployments is not removed now" in caplog.text


async def test_unused_code_is_removed_from_an_object_store(s3: S3FileSystem, bucket: str, script: Path) -> None:
    directory = FsspecJobDirectory(Storage(s3, f"{bucket}/jobs"), "flights")
    first = await deploy(directory, script, "1\n", TODAY)
    second = await deploy(directory, script, "2\n", TODAY + timedelta(days=30))
    staged = await directory.names("code")
    assert [Path(spec.script).parent.name in staged for spec in (first, second)] == [False, True]


async def test_each_file_is_staged_in_a_call_whose_timeout_grows_with_it(
    directory: FsspecJobDirectory, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow storage takes longer than the timeout of one call for all files together."""
    timeouts: list[float] = []
    call = StorageThreads.call

    async def record_timeout(threads: StorageThreads, work: Any, timeout_s: float, **kwargs: Any) -> Any:
        timeouts.append(timeout_s)
        return await call(threads, work, timeout_s, **kwargs)

    monkeypatch.setattr(StorageThreads, "call", record_timeout)
    archive = tmp_path / "large.zip"
    archive.write_bytes(bytes(100 << 20))
    await stage(directory, script, [archive])
    assert len(timeouts) == 4
    assert max(timeouts) >= 160
