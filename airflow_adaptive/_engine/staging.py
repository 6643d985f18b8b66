"""Stages the code of a job in the job directory, because a standalone master does not upload files.

The DAG author's script, the extra modules and files of the script, the program that runs the script, and a zip of the driver's runtime go
into the folder `code/<sha256>/`. The name of the folder is the digest of its content, so the content never changes: staging the
same code again writes none of its files, and a running driver keeps the code with which it was started.

Each deployment also writes the empty file `<date>.<fingerprint of the deployment>` into the folder that it uses. A folder that no
deployment has used for `RETENTION`, and from which neither the current deployment nor the newest driver was started, is removed.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Protocol

from airflow_adaptive._core.ports import JobDirectoryError, PortError, UnavailableError
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)

CODE = "code"
PACKAGE = "airflow_adaptive"
RUNTIME_ZIP = f"{PACKAGE}.zip"

FOLDER = re.compile(r"[0-9a-f]{64}")
"""Name of a folder with staged code."""

MARKER = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)\.(?P<deployment>[0-9a-z]+)")
"""Name of the file that a deployment writes into the folder that it uses."""

UNKNOWN_DEPLOYMENT = "unknown"

RETENTION = timedelta(days=7)
"""Time for which the code of a deployment is kept, although the journal does not name the deployment (yet)."""

MAIN_PROGRAM = """\
# Written by airflow-adaptive: runs {script} under the adaptive scheduler.
from pathlib import Path

from airflow_adaptive.job.entry.launcher import launch

launch(Path(__file__).with_name({script!r}))
"""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all files in the zip, the earliest that the format supports, so that equal content gives equal bytes."""


MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors of a file that a retry does not correct. Any other error of a file system may be an outage."""


class ReadablePath(Protocol):
    """A path on this machine, or on an object store."""

    @property
    def name(self) -> str:
        """Last part of the path."""

    @property
    def suffix(self) -> str:
        """End of the name, with its dot."""

    def read_bytes(self) -> bytes:
        """Return the content of the file."""


class StagingError(PortError):
    """The code of the job cannot be staged, and a retry does not help; `violations` are all its problems."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCode:
    """Locations of the staged code of a job.

    Attributes:
        script: URI of the driver's main program, which runs the author's script in the same folder (`job.entry.launcher`).
        py_files: URIs for `PYTHONPATH`: the zip of the runtime, the author's script (so that Spark copies the script to the
            folder of the main program), and the author's extra modules.
        files: path of each other file -> its URI.
    """

    script: str
    py_files: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)


async def stage(
    directory: FsspecJobDirectory, script: ReadablePath, py_files: Sequence[Path] = (), files: Sequence[Path] = ()
) -> StagedCode:
    """Copy the code of a job into the job directory: the script, the modules and archives that it imports, and other files, such as jars.

    Raises:
        StagingError: a file is missing, is not Python, or shares its name with another.
        UnavailableError: a file cannot be read now.
        JobDirectoryError: the directory cannot be written now.
    """
    contents = _contents_with_main_program(script, py_files, files)
    folder = f"{CODE}/{_digest(contents)}"
    uris = {name: directory.storage.uri(f"{folder}/{name}") for name in contents}
    for name, content in contents.items():
        if not await directory.create_file(f"{folder}/{name}", content):
            raise StagingError([f"{uris[name]} is damaged: remove the file, and the next deployment stages it again"])
    others = {path: uris[path.name] for path in files}
    main_program, *code = (name for name in uris if uris[name] not in others.values())
    return StagedCode(script=uris[main_program], py_files=tuple(uris[name] for name in code), files=others)


async def remove_unused_code(
    directory: FsspecJobDirectory, used: JobSpec, state: SchedulerState | None, today: date
) -> None:
    """Remove the code of earlier deployments than those of this job and of its newest state. A failure is logged, because old code does no harm."""
    current, kept = PurePosixPath(used.script).parent.name, set(_deployments(state))
    try:
        await directory.create_file(_marker(current, today, used.deployment), b"")
        for folder in await directory.names(CODE):
            if folder != current and FOLDER.fullmatch(folder):
                await _remove_if_unused(directory, folder, kept, today)
    except JobDirectoryError as error:
        log.warning("The code of earlier deployments is not removed now; the next deployment tries again: %s", error)


async def _remove_if_unused(directory: FsspecJobDirectory, folder: str, kept: Collection[str], today: date) -> None:
    """Remove a folder. A folder without a marker gets one, because its deployment may be in progress."""
    found = [found for name in await directory.names(f"{CODE}/{folder}") if (found := MARKER.fullmatch(name))]
    if not found:
        await directory.create_file(_marker(folder, today, UNKNOWN_DEPLOYMENT), b"")
        return
    is_recent = date.fromisoformat(max(marker["date"] for marker in found)) > today - RETENTION
    if not is_recent and not any(marker["deployment"] in kept for marker in found):
        log.info("Removing the code of an earlier deployment: %s/%s", CODE, folder)
        await directory.remove_folder(f"{CODE}/{folder}")


def _deployments(state: SchedulerState | None) -> Iterator[str]:
    if state is not None:
        yield state.deployment
        yield state.proved.deployment  # The next driver may be of it, too.


def _marker(folder: str, day: date, deployment: str) -> str:
    return f"{CODE}/{folder}/{day.isoformat()}.{deployment}"


def check_code(script: ReadablePath, py_files: Sequence[Path] = (), files: Sequence[Path] = ()) -> None:
    """Check the code of a job without staging the code. Raises as `stage`."""
    _contents([script, *py_files], files)


def runtime_zip() -> bytes:
    """Return the driver's runtime as an importable zip; equal code gives equal bytes."""
    package = files(PACKAGE)
    modules = {
        name: package / name
        for name in (
            "__init__.py",
            "_core/__init__.py",
            "_core/codec.py",
            "_core/failure_code.py",
            "_core/python_version.py",
        )
    }
    for folder in ("_core/protocol/", "job/"):
        modules |= dict(_modules(package / folder, folder))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as zipped:
        for name, module in sorted(modules.items()):
            zipped.writestr(_zip_entry(f"{PACKAGE}/{name}"), module.read_bytes())
    return archive.getvalue()


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Yield (path in the package, file) for all modules of a package and its subpackages."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system = 3  # Unix, wherever this runs
    entry.external_attr = 0o644 << 16
    return entry


def _contents_with_main_program(
    script: ReadablePath, py_files: Sequence[Path], files: Sequence[Path]
) -> dict[str, bytes]:
    """Return name -> content of all files that are staged, the program that runs the script first. Raises as `stage`."""
    contents, main_program = _contents([script, *py_files], files), f"run_{script.name}"
    if main_program in contents:
        raise StagingError([f"{main_program!r} is the name of the program that runs {script.name!r}: rename the file"])
    return {main_program: MAIN_PROGRAM.format(script=script.name).encode(), **contents}


def _contents(code: Sequence[ReadablePath], files: Sequence[Path]) -> dict[str, bytes]:
    """Return name -> content of all files of a job. Raises `StagingError`, `UnavailableError`."""
    contents, violations = {RUNTIME_ZIP: runtime_zip()}, []
    for path in (*code, *files):
        try:
            if path.name in contents:
                raise ValueError(  # noqa: TRY301  as what `_read` raises
                    f"two files of the job have the name {path.name!r}: rename one (the second is {str(path)!r})"
                )
            contents[path.name] = _read(path)
            if path in code:
                _check_source(path, contents[path.name])
        except ValueError as error:
            violations.append(str(error))
    if violations:
        raise StagingError(violations)
    return contents


def _read(path: ReadablePath) -> bytes:
    """Return the content of a file. Raises `ValueError`, `UnavailableError`."""
    try:
        return path.read_bytes()
    except MISSING as error:
        raise ValueError(
            f"{str(path)!r} cannot be read where Airflow runs ({error.strerror or error}): {_remedy(path, error)}"
        ) from error
    except Exception as error:  # The libraries of object stores raise exceptions of any class.
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise UnavailableError(f"{str(path)!r} cannot be read now ({reason})") from error


def _remedy(path: ReadablePath, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "allow the user of Airflow, or the connection in the URI, to read the file"
    if isinstance(error, IsADirectoryError):
        return "name a file, for example a zip file of the folder"
    if not isinstance(path, Path):
        return "check the URI"
    return "copy the file to every Airflow worker" if path.is_absolute() else "use an absolute path"


def _check_source(path: ReadablePath, content: bytes) -> None:
    """Compile a Python source, so that a syntax error fails the task and not the driver. Raises `ValueError`."""
    if path.suffix != ".py":
        return
    try:
        compile(content, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not Python source: {error}") from error


def _digest(contents: Mapping[str, bytes]) -> str:
    """Return the digest of names and contents; the lengths separate adjacent values."""
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()
