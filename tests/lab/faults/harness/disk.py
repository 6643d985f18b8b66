"""A small file system in memory that fills up or becomes read-only.

Who mounts it must be root, or run under `unshare -Urm`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_adaptive.local.waiting import wait_until

BUSY_S = 10.0
"""A file system can't be made read-only while a file on it is being written."""


class NoMountError(RuntimeError):
    """This process may not mount anything."""


class BusyError(RuntimeError):
    """The disk was being written all the time."""


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[None]:
    """The folder is a disk of its own meanwhile. Raises `NoMountError`."""
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder))
    if mounted.returncode:
        raise NoMountError(f"can't mount: {mounted.stderr.strip()}: run this as root, or under `unshare -Urm`")
    try:
        yield
    finally:
        _run("umount", "-l", str(folder)).check_returncode()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """The disk is, meanwhile. Raises `BusyError`."""
    try:
        _remount(disk, "ro")
    except TimeoutError as error:
        raise BusyError(str(error)) from error
    try:
        yield
    finally:
        _remount(disk, "rw")


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """The disk is, meanwhile."""
    filler = disk / "filler"
    filled = _run("dd", "if=/dev/zero", f"of={filler}", "bs=1k")
    assert "No space left on device" in filled.stderr
    try:
        yield
    finally:
        filler.unlink()


def _remount(disk: Path, how: str) -> None:
    command = ("mount", "-o", f"remount,{how}", str(disk))
    wait_until(lambda: _run(*command).returncode == 0, BUSY_S, f"remount {how} of {disk}", 0.05)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)
