"""What a task declares of its job, checked as a whole: one error tells all that is wrong, before a cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from inspect import signature
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.ports import ForeignDirectoryError, JobDirectoryError, PortError
from airflow_adaptive.runtime.spec import LEAST_MEMORY_MB, parse_memory
from airflow_adaptive.scheduler.errors import AdaptiveSchedulerError, did_you_mean
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.spark.secrets import SECRET_PROPERTY

Check = Callable[[], object]
"""Returns something, which does not matter, or raises what is wrong."""

WRONG = (AdaptiveSchedulerError, AirflowException, ImportError, PortError, ValueError)
"""What checks raise; Airflow its own for a connection in a URI, fsspec `ImportError` for a storage it has no library for."""

PARAMETERS = {
    "spark.app.name": "job",
    "spark.cores.max": "parallelism",
    "spark.driver.cores": "driver_cores",
    "spark.driver.memory": "driver_memory",
    "spark.executor.cores": "executor_cores",
    "spark.executor.instances": "parallelism",
    "spark.executor.memory": "executor_memory",
    "spark.master": "conn_id",
    "spark.submit.pyFiles": "py_files",
}
"""Spark properties that would have no effect, since a parameter of the operator decides."""

STREAMING_PARAMETERS = {
    "spark.dynamicAllocation.enabled": "parallelism",
    "spark.dynamicAllocation.initialExecutors": "parallelism",
    "spark.dynamicAllocation.maxExecutors": "parallelism",
    "spark.dynamicAllocation.minExecutors": "parallelism",
    "spark.sql.shuffle.partitions": "max_parallelism",
    "spark.sql.streaming.stopTimeout": "stop_timeout",
}
"""The same for what the scheduler, or the runtime in the driver, decides."""

OWN_PREFIX = "spark.airflow.adaptive."

SUPERVISE = "spark.driver.supervise"


class DeclarationError(ValueError):
    """The job as declared can't run.

    Attributes:
        violations: everything that is wrong.
    """

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(self.violations))


@contextmanager
def airflow_errors(job: str) -> Iterator[None]:
    """Raise errors of a declaration as exceptions of Airflow, with the id of the job in the message.

    Raises:
        AirflowException: the job directory cannot be used; a retry may succeed.
        AirflowFailException: every other error.
    """
    try:
        yield
    except ForeignDirectoryError as error:
        raise AirflowFailException(f"job {job!r}: {error}") from error
    except JobDirectoryError as error:
        raise AirflowException(f"job {job!r}: {error}") from error
    except (PortError, AdaptiveSchedulerError, ValueError) as error:
        raise AirflowFailException(f"job {job!r}: {error}") from error


def require(checks: Iterable[Check]) -> None:
    """Run all checks.

    Raises:
        DeclarationError: listing what they found.
    """
    violations = dict.fromkeys(violation for check in checks for violation in _violations(check))
    if violations:
        raise DeclarationError(list(violations))


def _violations(check: Check) -> Sequence[str]:
    try:
        check()
    except WRONG as error:
        found: Sequence[str] = getattr(error, "violations", ()) or (str(error),)
        return found
    return ()


def graph(make: Callable[[], JobGraph]) -> None:
    """Refuse a graph that can't run, or can't be made. Raises `JobGraphError`, `DeclarationError`."""
    try:
        make().validate()
    except (AttributeError, TypeError) as error:  # nothing keeps values of a wrong type out of a DAG file
        raise DeclarationError(
            [f"parallelism, max_parallelism or job_graph has a value of a wrong type: {error}"]
        ) from error


def texts(**values: object) -> None:
    """Refuse what is no text, or empty. Raises `DeclarationError`."""
    _refuse(
        f"{name} {value!r} must be a text that is not empty"
        for name, value in values.items()
        if not (isinstance(value, str) and value.strip())
    )


def one_of(choices: type[StrEnum], **values: object) -> None:
    """Refuse what is none of the choices, whatever its case. Raises `DeclarationError`."""
    names = ", ".join(choice.lower() for choice in choices)
    _refuse(
        f"{name} {value!r} is none of {names}"
        for name, value in values.items()
        if str(value).upper() not in choices.__members__
    )


def job_states(states: Collection[str], known: Collection[str]) -> None:
    """Reject unknown states of a job, and an empty collection. Raises `DeclarationError`."""
    if not states:
        raise DeclarationError(["name a state to wait for"])
    _refuse(f"unknown state {state!r}{did_you_mean(str(state), known)}" for state in states if state not in known)


def priority(value: object) -> None:
    """Reject a priority that is not a whole number. Raises `DeclarationError`."""
    if type(value) is not int:
        raise DeclarationError([f"priority {value!r} must be a whole number"])


def lists(**values: object) -> None:
    """Refuse what is no list; a string is a sequence, too: of its letters. Raises `DeclarationError`."""
    _refuse(
        f"{name} must be a list: [{value!r}], say"
        for name, value in values.items()
        if isinstance(value, str | bytes) or not isinstance(value, Sequence)
    )


def mappings(**values: object) -> None:
    """Refuse what is no mapping. Raises `DeclarationError`."""
    wrong = [name for name, value in values.items() if value is not None and not isinstance(value, Mapping)]
    _refuse(f"{name} must be a mapping, as {{'name': 'value'}}" for name in wrong)  # it may hold a secret


def no_secrets(**properties: Mapping[str, str] | None) -> None:
    """Refuse secret names: a trigger's arguments lie in the metadata database in clear. Raises `DeclarationError`."""
    names = [(name, str(key)) for name, of in properties.items() for key in _properties(of)]
    secrets = [f"{name}[{key!r}]" for name, key in names if SECRET_PROPERTY.search(key)]
    if secrets:
        raise DeclarationError(
            [
                f"{', '.join(secrets)}: secrets would be stored in clear; give them as Spark properties in the field "
                "'conf' of the connection's extra"
            ]
        )


def size(shape: Callable[..., object], name: str, cores: object, memory: str) -> None:
    """Refuse a driver or an executor that Spark would not start. Raises `DeclarationError`.

    Args:
        shape: `DriverShape` or `ExecutorShape`.
        name: "driver" or "executor".
        cores: of it.
        memory: of it, as text.
    """
    violations = [*_violations(lambda: parse_memory(memory, f"{name}_memory"))]
    memory_mb = LEAST_MEMORY_MB if violations else parse_memory(memory)
    _refuse([*violations, *_violations(lambda: shape(cores=cores, memory_mb=memory_mb))])


def no_overridden_properties(conf: Mapping[str, str] | None, *, streaming: bool = True) -> None:
    """Refuse Spark properties that a parameter of the operator, or the scheduler, decides. Raises `DeclarationError`."""
    _refuse(f"conf[{violation}" for violation in _overridden(_properties(conf), streaming))


def callback(**callbacks: object) -> None:
    """Refuse a callback that can't reach the triggerer, or would take secrets there. Raises `DeclarationError`."""
    for name, given in callbacks.items():
        if given is None:
            continue
        if not isinstance(given, AsyncCallback):
            raise DeclarationError(
                [f"{name} must be an AsyncCallback: AsyncCallback(SmtpNotifier, kwargs={{...}}), say"]
            )
        no_secrets(**{f"{name}.kwargs": given.kwargs})
        try:
            json.dumps(given.kwargs)
        except (TypeError, ValueError) as error:
            raise DeclarationError([f"{name}.kwargs must be texts, numbers, lists and mappings ({error})"]) from error


def cluster(conn_id: str, *, streaming: bool = True) -> None:
    """Refuse a connection that leads to no standalone cluster, or with properties that would have no effect.

    Blocks on Airflow's connections. Raises `DeclarationError`, `AddressError`.
    """
    address = AdaptiveSparkHook(conn_id).address()
    _refuse(f"connection {conn_id!r}: extra conf[{violation}" for violation in _overridden(address.conf, streaming))


def known_parameters(operator: type[BaseOperator], names: Iterable[str], options: Iterable[str]) -> None:
    """Refuse what looks like a misspelled parameter; the rest Airflow refuses, in words of its own.

    Args:
        operator: whose parameters they are meant to be.
        names: parameters that it has not taken itself.
        options: more names that it understands.

    Raises:
        TypeError: naming them, and what was meant.
    """
    known = [*signature(operator.__init__).parameters, *options]
    airflows = signature(BaseOperator.__init__).parameters
    hints = {name: did_you_mean(name, known) for name in names if name not in airflows}
    wrong = [f"{name!r}{hint}" for name, hint in hints.items() if hint]
    if wrong:
        raise TypeError(f"{operator.__name__} has no parameter {'; '.join(wrong)}")


def _properties(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What is a mapping; the rest `mappings` refuses."""
    return given if isinstance(given, Mapping) else {}


def _overridden(conf: Mapping[str, Any], streaming: bool) -> Iterator[str]:
    decided = PARAMETERS | STREAMING_PARAMETERS if streaming else PARAMETERS
    for name, value in conf.items():
        if name in decided:
            yield f"{name!r}] would have no effect: use the parameter {decided[name]!r} of the operator"
        elif name.startswith(OWN_PREFIX):
            yield f"{name!r}] belongs to the runtime: leave it out"
        elif name == SUPERVISE and str(value).lower() != "false":
            yield f"{name!r}] must be off: the scheduler restarts the driver, not the cluster"


def _refuse(violations: Iterable[str]) -> None:
    found = list(violations)
    if found:
        raise DeclarationError(found)
