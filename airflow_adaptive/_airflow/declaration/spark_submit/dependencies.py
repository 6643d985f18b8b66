"""What the script of a job needs beside itself: jars, packages, files, archives and Python modules.

Theory: the names and the forms of the parameters are the ones of `SparkSubmitOperator`. A path without a scheme, or with the scheme `file`, is a
file where Airflow runs, which is staged in the job directory. Any other URI is passed to Spark, which reads it on the cluster.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Any

from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY

Items = str | Sequence[str] | None
"""A list, or text with commas."""

SPARK_PACKAGES = "spark.jars.packages"

PROPERTIES = {
    "jars": "spark.jars",
    "packages": SPARK_PACKAGES,
    "exclude_packages": "spark.jars.excludes",
    "repositories": "spark.jars.repositories",
    "files": "spark.files",
    "archives": "spark.archives",
    "driver_class_path": "spark.driver.extraClassPath",
    "name": "spark.app.name",
}
"""Parameter -> Spark property with the same effect."""

STAGED = ("jars", "files", "archives")
"""Parameters with files that spark-submit reads."""

PATTERN = "*"

WITH_PATTERNS = (*STAGED, "py_files")
"""Parameters whose items may be patterns such as `/opt/jars/*.jar`, which spark-submit expands."""

LISTS = ("jars", "packages", "exclude_packages", "repositories", "files", "archives", "py_files")

ARCHIVES = (".zip", ".jar", ".tar.gz", ".tgz", ".tar")
"""Ends of the names of archives that Spark unpacks (`org.apache.spark.util.Utils.unpack`). It only copies any other file."""

_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")
_PACKAGE = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+")
_EXCLUSION = re.compile(r"[^:\s]+:[^:\s]+")
_STAGED_NAME = re.compile(r"[\w.+=@-]+", re.ASCII)


MODULES = sys.stdlib_module_names | {"airflow_adaptive", "py4j", "pyspark"}
"""Modules that a driver imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Rendered parameters of the operator.

    Attributes:
        jars: jars for the driver and the executors.
        packages: Maven packages, as `group:artifact:version`.
        exclude_packages: dependencies of the packages that are left out, as `group:artifact`.
        repositories: Maven repositories in addition to the central repository.
        files: files for the working directories of driver and executors.
        archives: archives that Spark unpacks there; `environment.tar.gz#environment` names the folder.
        py_files: Python modules and zip files.
        driver_class_path: additional class path of the driver, on the machine of the driver.
        name: name of the Spark application.
    """

    jars: Items = None
    packages: Items = None
    exclude_packages: Items = None
    repositories: Items = None
    files: Items = None
    archives: Items = None
    py_files: Items = None
    driver_class_path: str | None = None
    name: str | None = None

    def items(self, name: str) -> list[str]:
        """Return the items of a list parameter, of any form. `violations` reports a value that is not a list."""
        value = getattr(self, name)
        texts = [value] if isinstance(value, str) else value if _is_list(value) and value else ()
        items = (item.strip() for text in texts for item in str(text).split(",") if item.strip())
        return [found for item in items for found in (_expanded(item) if name in WITH_PATTERNS else (item,))]

    def lists(self) -> dict[str, list[str]]:
        """Return the items of all list parameters."""
        return {name: self.items(name) for name in LISTS}

    @property
    def local_py_files(self) -> list[Path]:
        """Python modules and zip files where Airflow runs."""
        return [*dict.fromkeys(local_path(item) for item in self.items("py_files") if not is_uri(item))]

    @property
    def remote_py_files(self) -> tuple[str, ...]:
        """URIs of Python modules and zip files that Spark reads itself."""
        return tuple(item for item in self.items("py_files") if is_uri(item))

    @property
    def local_files(self) -> list[Path]:
        """Jars, files and archives where Airflow runs."""
        items = (item for name in STAGED for item in self.items(name))
        return [*dict.fromkeys(local_path(item) for item in items if not is_uri(item))]

    def properties(self, conf: Mapping[str, str], staged: Mapping[Path, str]) -> dict[str, str]:
        """Return the Spark properties of the parameters, and the other properties of the job.

        The packages have a property of their own, because the launcher and not spark-submit resolves the packages.

        Args:
            conf: Spark properties of the user.
            staged: local file -> URI of the staged file.
        """
        lists = {name: [_staged(item, staged) for item in items] for name, items in self.lists().items()}
        values = {name: ",".join(items) for name, items in lists.items() if name in PROPERTIES}
        texts = {"driver_class_path": self.driver_class_path, "name": self.name}
        properties = {**conf, **{PROPERTIES[name]: str(value) for name, value in (values | texts).items() if value}}
        packages = properties.pop(SPARK_PACKAGES, "")
        return {**properties, **({PACKAGES_PROPERTY: packages} if packages else {})}

    def violations(self, conf: Mapping[str, Any]) -> Iterator[str]:
        """Yield all violations, without those of files that cannot be read (`_engine.staging.check_code`).

        Args:
            conf: Spark properties of the user.
        """
        wrong = [name for name in LISTS if not _is_list(getattr(self, name))]
        yield from (f"{name} must be a list, or text with commas between the items" for name in wrong)
        if wrong:
            return
        for name, property_name in PROPERTIES.items():
            if getattr(self, name) and property_name in conf:
                yield f"conf[{property_name!r}] and the parameter {name!r} set the same property: leave one of them out"
        yield from self._violations_of_packages()
        for item in self.items("archives"):
            yield from _violations_of_archive(item)
        yield from self._violations_of_patterns()
        for path in (*self.local_files, *self.local_py_files):
            if PATTERN not in path.name and not _STAGED_NAME.fullmatch(path.name):
                yield _unstageable(str(path))
        for path in self.local_py_files:
            try:
                require_own_module(str(path))
            except ValueError as error:
                yield str(error)

    def _violations_of_patterns(self) -> Iterator[str]:
        for name in WITH_PATTERNS:
            for item in self.items(name):
                if PATTERN in item and is_uri(item):
                    yield f"{name}: {item!r} is a pattern, and airflow-adaptive expands patterns of files where Airflow runs only: name each file"

    def _violations_of_packages(self) -> Iterator[str]:
        for item in self.items("packages"):
            if not _PACKAGE.fullmatch(item):
                yield f"packages: {item!r} is not a package: write group:artifact:version"
        for item in self.items("exclude_packages"):
            if not _EXCLUSION.fullmatch(item):
                yield f"exclude_packages: {item!r} is not a dependency: write group:artifact, without a version"


def is_uri(item: str) -> bool:
    """Return whether Spark reads an item itself. The scheme `local` names a file on each machine of the cluster."""
    return _URI.match(item) is not None


def local_path(item: str) -> Path:
    """Return the path of an item where Airflow runs."""
    return Path(_without_alias(item).removeprefix("file:").removeprefix("//localhost"))


def require_own_module(path: str) -> None:
    """Reject a file that Python would import instead of a module that every driver needs. Raises `ValueError`."""
    name = PurePosixPath(path)
    if name.suffix == ".py" and name.stem in MODULES:
        raise ValueError(
            f"{path!r} has the name of the module {name.stem!r}, and the driver would import this file instead: rename the file"
        )


def require_staged_name(path: str, name: str) -> None:
    """Reject a name of a staged file that Spark would not find in its lists and URIs. Raises `ValueError`."""
    if not _STAGED_NAME.fullmatch(name):
        raise ValueError(_unstageable(path))


def _unstageable(path: str) -> str:
    return f"rename {path!r}: the name of a staged file may contain letters, digits and the characters . _ - + = @ only"


def _expanded(item: str) -> list[str]:
    """Return the files where Airflow runs that match a pattern; any other item as it is."""
    return (PATTERN in item and not is_uri(item) and sorted(glob(str(local_path(item))))) or [item]


def _without_alias(item: str) -> str:
    """Return an item without the name of its folder, as in `environment.tar.gz#environment`."""
    return item.partition("#")[0]


def _staged(item: str, staged: Mapping[Path, str]) -> str:
    if is_uri(item) or (path := local_path(item)) not in staged:
        return item
    _, separator, alias = item.partition("#")
    return f"{staged[path]}{separator}{alias}"


def _is_list(value: object) -> bool:
    """Return whether a value is a list of texts or paths, or text."""
    if value is None or isinstance(value, str):
        return True
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        return False
    return all(isinstance(item, str) or not (item is None or isinstance(item, Collection)) for item in value)


def _violations_of_archive(item: str) -> Iterator[str]:
    name = PurePosixPath(_without_alias(item)).name
    if not name.lower().endswith(ARCHIVES):
        yield f"archives: {item!r} is not an archive that Spark unpacks ({', '.join(ARCHIVES)}): use the parameter 'files'"
    elif not is_uri(item) and (path := local_path(item)).is_file() and not _is_archive(path):
        yield f"archives: {str(path)!r} has the name of an archive, and its content is not an archive"


def _is_archive(path: Path) -> bool:
    return zipfile.is_zipfile(path) if path.suffix.lower() in (".zip", ".jar") else tarfile.is_tarfile(path)
