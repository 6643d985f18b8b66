"""The session of a script, compared with what the scheduler submitted.

A script can set other Spark properties than the submission: the script has precedence. Some of these properties belong to the scheduler: with
another master the queries run on another cluster, with other sizes the driver waits for executors that never come, and without dynamic
allocation no executor is added or removed. The runtime refuses such a script before it creates the context, because a context waits for
minutes for a master that does not exist, and checks the context again when it exists.

A script also can use functions of pyspark that need a session before it creates one, for example a UDF with a type as text at module level.
The runtime then creates the session, as `AdaptiveJob(...).run()` would do later.

The module uses the JVM for the properties of the submission, which spark-submit sets as system properties.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import utils as sql_utils

from airflow_adaptive._core.protocol.conf import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    PARAMETERS,
)
from airflow_adaptive.job.queries.writers import AdaptiveJobError

MASTER: Final = "spark.master"
APP_NAME: Final = "spark.app.name"
DYNAMIC_ALLOCATION: Final = "spark.dynamicAllocation."
KUBERNETES_MASTER: Final = "k8s://"

REMOTE: Final = "spark.remote"
REMOTE_VARIABLE: Final = "SPARK_REMOTE"
API_MODE: Final = "spark.api.mode"
"""What selects Spark Connect. An address may contain a token."""

MEMORY: Final = re.compile(r"(\d+)([bkmgtp]?)b?")
"""Size in the format of Spark (`JavaUtils.byteStringAs`)."""

UNITS: Final = {"b": 1, "k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


class SubmittedSession:
    """The properties with which this driver was submitted, and the session that the script creates.

    Attributes:
        refusal: error that the script got instead of a context, which is the cause of its end even if the script has caught the error.
    """

    def __init__(self) -> None:
        self.refusal: AdaptiveJobError | None = None
        self._submitted: Mapping[str, str] = {}
        self._has_context = False
        self._created_early = False

    def install_hooks(self, submitted: Mapping[str, str]) -> None:
        """Intercept the creation of sessions. Without properties of the submission, nothing is intercepted."""
        self._submitted = dict(submitted)
        if not submitted:
            return
        replace_methods(SparkContext, ("__init__",), self._on_context)
        replace_methods(SparkSession.Builder, ("getOrCreate",), self._on_builder)
        self._replace_lookups()

    def require(self, properties: Mapping[str, str], *, on_kubernetes: bool = False) -> None:
        """Check the properties of a context, or those that a script sets, perhaps with those of Kubernetes.

        Raises:
            AdaptiveJobError: a property of the scheduler has another value than in the submission. The message names all of them.
        """
        others = {
            name: value
            for name, value in properties.items()
            if name not in self._submitted or _canonical(name, value) != _canonical(name, self._submitted[name])
        }
        problems = []
        if MASTER in others:
            problems.append(
                f"the script sets the master {others[MASTER]!r} itself, so its queries would not run on the cluster of the job, "
                f"{self._submitted.get(MASTER)!r}: remove .master(...)"
            )
        settings = [*self._settings(others)]
        if on_kubernetes:
            settings += [setting for name in others for setting in _kubernetes_settings(name)]
        if settings:
            problems.append(
                f"the script sets {', '.join(settings)}: remove these properties from the script, and use the parameters of the operator"
            )
        if problems:
            self._refuse("; ".join(problems))

    def _settings(self, properties: Mapping[str, str]) -> Iterator[str]:
        """Yield the settings of properties that a parameter of the operator determines."""
        for name, value in properties.items():
            default = "parallelism" if name.startswith(DYNAMIC_ALLOCATION) else None
            parameter = PARAMETERS.get(name, default)
            if parameter is not None and name not in (MASTER, APP_NAME):
                submitted = self._submitted.get(name)
                instead = "" if submitted is None else f" instead of {submitted!r}"
                yield f"{name} to {value!r}{instead} (parameter {parameter!r})"

    def _on_context(self, create: Callable[..., None], context: SparkContext, *args: Any, **options: Any) -> None:
        given = signature(create).bind(context, *args, **options).arguments
        conf, master = given.get("conf"), given.get("master")
        properties = dict(conf.getAll()) if conf is not None else dict(SparkConf().getAll())
        if master:
            properties[MASTER] = master
        self.require(properties, on_kubernetes=self._submitted.get(MASTER, "").startswith(KUBERNETES_MASTER))
        self._has_context = True
        create(context, *args, **options)
        self.refusal = None
        try:
            self.require(dict(context.getConf().getAll()))
        except AdaptiveJobError:
            context.stop()
            raise

    def _on_builder(self, get: Callable[..., SparkSession], builder: SparkSession.Builder) -> SparkSession:
        options = {name: str(value) for name, value in builder._options.items()}
        if options.get(REMOTE) or os.environ.get(REMOTE_VARIABLE) or options.get(API_MODE, "").lower() == "connect":
            self._refuse(
                "the script uses Spark Connect, so its queries would run in another driver, or without the scheduler: remove .remote(...), "
                f"{REMOTE_VARIABLE} and {API_MODE}"
            )
        self.require(options)
        if self._created_early:
            self._require_modifiable(options)
        return get(builder)

    def _require_modifiable(self, options: Mapping[str, str]) -> None:
        """Refuse properties that Spark would ignore, because the runtime had to create the session before."""
        session = SparkSession.active()
        ignored = [
            name
            for name, value in options.items()
            if name.startswith("spark.")
            and name not in (MASTER, APP_NAME)
            and not session.conf.isModifiable(name)
            and session.conf.get(name, None) != value
        ]
        if ignored:
            self._refuse(
                f"the script sets {', '.join(ignored)} too late: an earlier line needed a session, for example a UDF with a type as text at "
                "module level. Create the session at the top of the script, or set the properties in `conf` of the operator"
            )

    def _on_lookup(self, lookup: Callable[[], SparkContext]) -> SparkContext:
        if not self._has_context:
            SparkSession.builder.getOrCreate()
            self._created_early = True
        return lookup()

    def _replace_lookups(self) -> None:
        """Replace the function of pyspark that returns the context, in all modules that have imported it."""
        lookup = sql_utils.get_active_spark_context
        own = replacement(lookup, self._on_lookup)
        for module in [module for name, module in [*sys.modules.items()] if name.startswith("pyspark.")]:
            for name, value in [*vars(module).items()]:
                if value is lookup:
                    setattr(module, name, own)

    def _refuse(self, message: str) -> None:
        error = AdaptiveJobError(message)
        self.refusal = self.refusal or error
        raise error


def _kubernetes_settings(name: str) -> Iterator[str]:
    """Yield the setting of a property of Kubernetes, without its value, which may be secret."""
    prefixes = (parameter for prefix, parameter in KUBERNETES_PREFIXES.items() if name.startswith(prefix))
    parameter = KUBERNETES_PARAMETERS.get(name) or next(prefixes, None)
    if parameter is not None and name != APP_NAME:
        yield f"{name} (parameter {parameter!r})"
    elif name in KUBERNETES_DETERMINED:
        yield f"{name} (determined by airflow-adaptive)"


def _canonical(name: str, value: str) -> object:
    text = value.strip().lower()
    size = MEMORY.fullmatch(text) if name.endswith(".memory") else None
    return text if size is None else int(size[1]) * UNITS[size[2]]


def replace_methods(owner: Any, names: tuple[str, ...], around: Callable[..., Any]) -> None:
    """Replace methods of a class, or functions of a module: a call becomes `around(original, *args, **options)`."""
    for name in names:
        setattr(owner, name, replacement(getattr(owner, name), around))


def replace_properties(owner: type, names: tuple[str, ...], around: Callable[..., Any]) -> None:
    """Replace properties of a class: a read becomes `around(original, object)`."""
    for name in names:
        read = owner.__dict__[name].fget
        setattr(owner, name, property(replacement(read, around), doc=read.__doc__))


def replacement(original: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `around` with the original function and the arguments."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return around(original, *args, **options)

    return call
