"""Checks whether the files of the installed pyspark are intact.

The packages pyspark and pyspark-client install different versions of the same files. The package that pip installs last
overwrites the files of the other package, and pip does not report the conflict (docs/adr/0003). Run the module to
check an installation: `python -m airflow_adaptive.local.check_pyspark`.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

REQUIREMENT = "pyspark>=4.0"
"""The requirement of the extra "local" in pyproject.toml."""


def repair_command() -> str | None:
    """Return the command that repairs the installed pyspark, or None if pyspark is intact."""
    try:
        pyspark = distribution("pyspark")
    except PackageNotFoundError:
        return _pip_install(REQUIREMENT)
    if first_damaged(pyspark.files or ()) is None:
        return None
    return _pip_install("--force-reinstall", "--no-deps", f"pyspark=={pyspark.version}")


def first_damaged(files: Iterable[PackagePath]) -> PackagePath | None:
    """Return the first Python file that differs from the hash that its package recorded, or None."""
    return next((file for file in files if file.suffix == ".py" and _is_damaged(file)), None)


def _is_damaged(file: PackagePath) -> bool:
    location = Path(file.locate())
    if file.hash is None or not location.is_file():
        return file.hash is not None
    digest = hashlib.new(file.hash.mode, location.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value


def _pip_install(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])


def main() -> int:
    """Print the command that repairs pyspark and return 1, or return 0 if pyspark is intact."""
    command = repair_command()
    if command is None:
        return 0
    sys.stderr.write(f"pyspark is missing or damaged. Repair the installation with this command:\n{command}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
