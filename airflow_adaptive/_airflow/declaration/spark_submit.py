"""The parameters of `SparkSubmitOperator` that describe the script of a job: what it needs beside itself, its properties file, and its lineage.

Theory: the names and the forms of the parameters are the ones of `SparkSubmitOperator`. A path without a scheme, or with the scheme `file`, is a
file where Airflow runs, which is staged in the job directory. Any other URI is passed to Spark, which reads it on the cluster.

OpenLineage gets the run of the task as the parent of Spark's own events, and the transport of the events. As in Airflow's Spark provider, the
administrator turns both on for all tasks (`[openlineage] spark_inject_parent_job_info` and
`spark_inject_transport_info`), and a task can override them. Airflow's OpenLineage provider computes the properties.
"""

from __future__ import annotations

import logging
import re
import sys
import tarfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Any, Final

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._airflow.process.job_ports import object_storage_path
from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive._core.protocol.secret_names import is_secret
from airflow_adaptive._engine.staging import ReadablePath

log = logging.getLogger(__name__)

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
MAVEN = (
    ("packages", _PACKAGE, "is not a package: write group:artifact:version"),
    ("exclude_packages", _EXCLUSION, "is not a dependency: write group:artifact, without a version"),
)
"""Parameter -> form of its items, and what is wrong with any other item."""

_STAGED_NAME = re.compile(r"[\w.+=@-]+", re.ASCII)


MODULES = sys.stdlib_module_names | {"airflow_adaptive", "py4j", "pyspark"}
"""Modules that a driver imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The parameters of `AdaptiveSparkOperator` for what the script needs beside itself, rendered."""

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
        """Yield all violations, without those of files that cannot be read (`_engine.staging.check_code`)."""
        wrong = [name for name in LISTS if not _is_list(getattr(self, name))]
        yield from (f"{name} must be a list, or text with commas between the items" for name in wrong)
        if wrong:
            return
        for name, property_name in PROPERTIES.items():
            if getattr(self, name) and property_name in conf:
                yield f"conf[{property_name!r}] and the parameter {name!r} set the same property: leave one of them out"
        for name, pattern, remedy in MAVEN:
            yield from (f"{name}: {item!r} {remedy}" for item in self.items(name) if not pattern.fullmatch(item))
        for item in self.items("archives"):
            yield from _violations_of_archive(item)
        yield from self._violations_of_files()

    def _violations_of_files(self) -> Iterator[str]:
        for name in WITH_PATTERNS:
            for item in (item for item in self.items(name) if PATTERN in item and is_uri(item)):
                yield f"{name}: {item!r} is a pattern, and airflow-adaptive expands patterns of files where Airflow runs only: name each file"
        for path in (*self.local_files, *self.local_py_files):
            if PATTERN not in path.name and not _STAGED_NAME.fullmatch(path.name):
                yield _unstageable(str(path))
        for path in self.local_py_files:
            try:
                require_own_module(str(path))
            except ValueError as error:
                yield str(error)


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


JVM_APPLICATIONS = (".jar", ".scala", ".java")

LOCAL = "local:"


def check_script(application: str) -> None:
    """Reject a JVM application, and a name that Spark would not find in its lists and URIs. Raises `ValueError`."""
    require_staged_name(application, PurePosixPath(application).name)
    if PurePosixPath(application).suffix.lower() in JVM_APPLICATIONS:
        raise ValueError(
            f"application {application!r} is a JVM application, and airflow-adaptive runs PySpark scripts only: use SparkSubmitOperator, or "
            "call the classes from a PySpark script with the parameter 'jars'"
        )
    require_own_module(application)


def application_path(application: str) -> ReadablePath:
    """Return the path of the script; blocks on the Airflow connection in the URI of an object store.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        ValueError: Airflow has no access to the script.
    """
    if application.startswith(LOCAL):
        raise ValueError(
            f"application {application!r} is a file of the cluster: use a file where Airflow runs, or on an object store, because the "
            "script is staged in the job directory"
        )
    if not is_uri(application):
        return local_path(application)
    return object_storage_path(application)


YARN = "leave it out, because airflow-adaptive runs jobs on standalone clusters and on Kubernetes only"

TRACKED = "leave it out, because the scheduler observes the driver"

KERBEROS = "leave it out, because airflow-adaptive does not support Kerberos"

INSTEAD = {
    "config_kwargs": "use the parameter 'conf'",
    "deploy_mode": "leave it out, because the driver always runs on the cluster",
    "durable": "leave it out, because a retry always continues with the running driver",
    "env": "use the parameter 'env_vars'",
    "java_class": "leave it out, because airflow-adaptive runs PySpark scripts only; use SparkSubmitOperator for JVM applications",
    "keytab": KERBEROS,
    "num_executors": "use parallelism=(lower, upper): bounds of the slots, which are the cores of all executors",
    "post_submit_commands": "leave it out, and run the commands in a task that follows",
    "principal": KERBEROS,
    "proxy_user": "leave it out, because a driver runs as the user of its worker, or of its image",
    "reconnect_on_retry": "leave it out, because a retry always continues with the running driver",
    "spark_binary": "leave it out, because no spark-submit runs in Airflow; for a batch, set the extra field 'spark-binary' of the connection",
    "status_poll_interval": "use the option 'poll_interval'",
    "total_executor_cores": "use parallelism=(lower, upper): bounds of the slots, which are the cores of all executors",
    "track_driver_via_k8s_api": TRACKED,
    "use_krb5ccache": KERBEROS,
    "verbose": "leave it out, and set spark.log.level in `conf`",
    "yarn_queue": YARN,
    "yarn_rm_auth": YARN,
    "yarn_track_via_rm_api": YARN,
}
"""Parameter -> what to do instead."""


_LINE = re.compile(r"(?P<name>(?:\\.|[^\\ \t\f=:])+)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BLANKS = "".join(map(chr, range(33)))
"""Characters that `String.trim` removes."""

_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def read_properties(file: str | None) -> dict[str, str]:
    """Return the Spark properties of a file; none without a file. spark-submit, too, ignores other properties.

    Raises:
        ValueError: the file cannot be read.
    """
    if not file:
        return {}
    if not isinstance(file, str | Path):
        raise ValueError(f"properties_file {file!r} must be text")  # noqa: TRY004  All violations are of this class.
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"properties_file {file!r} cannot be read where Airflow runs ({error})") from error
    found = (_LINE.fullmatch(line) for line in _lines(text))
    pairs = {_unescaped(line["name"]): _unescaped(line["value"]).strip(_BLANKS) for line in found if line}
    return {name: value for name, value in pairs.items() if name.startswith("spark.")}


def _lines(text: str) -> Iterator[str]:
    """Yield lines without comments. A line that ends with a backslash continues on the next line."""
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):  # Java knows no other line separators.
        stripped = line.lstrip(" \t\f")
        if not pending and stripped.startswith(("#", "!")):
            continue
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        if pending:
            yield pending
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _LETTERS.get(escape, escape)

    return _ESCAPE.sub(character, text)


SECTION: Final = "openlineage"

PARENT: Final = "spark_inject_parent_job_info"

TRANSPORT: Final = "spark_inject_transport_info"

HEADERS: Final = ".headers."
"""Part of the names of properties with HTTP headers, which may contain credentials."""


def is_on(declared: bool | None, option: str) -> bool:
    """Return what the task declares, or the option of the administrator if the task declares nothing."""
    return bool(conf.getboolean(SECTION, option, fallback=False)) if declared is None else declared


def with_lineage(properties: Mapping[str, str], context: Any, *, parent: bool, transport: bool) -> Mapping[str, str]:
    """Return Spark properties with those of OpenLineage. Properties that exist take precedence.

    Raises:
        ValueError: Airflow's OpenLineage provider is not installed.
    """
    if not (parent or transport):
        return properties
    try:
        from airflow.providers.openlineage.utils import spark  # noqa: PLC0415  The provider is optional.
    except ImportError as error:
        raise ValueError(
            "openlineage_inject_parent_job_info and openlineage_inject_transport_info need Airflow's OpenLineage provider: install "
            f"airflow-adaptive[openlineage] on the workers, or set them to False ({error})"
        ) from error
    found = dict(properties)
    if parent:
        found = spark.inject_parent_job_information_into_spark_properties(found, context)
    if transport:
        found = spark.inject_transport_information_into_spark_properties(found, context)
    return _without_secrets(found, properties)


def _without_secrets(found: Mapping[str, str], declared: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties without secrets that were added, because Spark's properties are not secret (web UI, job directory)."""
    added = found.keys() - declared.keys()
    secret = sorted(name for name in added if HEADERS in name or is_secret(name, found[name]))
    if secret:
        log.warning(
            "The Spark properties %s of Airflow's OpenLineage transport are secret, and are not passed to Spark. Set them in the extra field "
            "'secret-conf' of the connection of the cluster.",
            ", ".join(secret),
        )
    return {name: value for name, value in found.items() if name not in secret}
