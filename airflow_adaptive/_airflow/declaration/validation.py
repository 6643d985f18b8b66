"""Validation of the declaration of a job. One error lists all violations, before the first request to the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from inspect import signature
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from airflow.sdk import BaseOperator, XComArg

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AsyncCallback,
)
from airflow_adaptive._clusters.connection_fields import UndefinedConnectionError
from airflow_adaptive._core.failure_code import DECLARATION, error_code, with_code
from airflow_adaptive._core.ports import (
    SEPARATOR,
    ForeignDirectoryError,
    JobDirectoryError,
    PortError,
    UnavailableError,
)
from airflow_adaptive._core.protocol.conf import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    MANAGED_PARAMETERS,
    PARAMETERS,
    STREAMING_PARAMETERS,
    SUPERVISE,
)
from airflow_adaptive._core.protocol.conf import PREFIX as OWN_PREFIX
from airflow_adaptive._core.protocol.secret_names import is_secret, secret_assignments
from airflow_adaptive._core.scheduler.errors import AdaptiveSchedulerError, did_you_mean
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._engine.spec import MIN_MEMORY_MB, parse_memory

Check = Callable[[], object]
"""Raises an exception for a violation. The return value is ignored."""

VIOLATION_ERRORS = (AdaptiveSchedulerError, AirflowException, ImportError, PortError, ValueError)
"""Exceptions of checks.

Airflow raises its own exceptions for a connection in a URI. fsspec raises `ImportError` if the library of a storage is missing.
"""


_NOT_RECEIVED = re.compile("[\x00\ud800-\udfff]")
"""Characters that arguments, environment variables and Spark properties cannot contain."""

OUTAGES = (AirflowNotFoundException, UnavailableError, UndefinedConnectionError)
"""Errors that an outage may cause. Airflow reports a connection as not defined also when its secrets backend does not answer."""


class DeclarationError(ValueError):
    """The declaration of a job is invalid.

    Attributes:
        violations: all violations.
        may_be_outage: whether an outage may be the cause of all violations, so that a retry may help.
        code: code of the error.
    """

    def __init__(self, violations: Sequence[str], *, may_be_outage: bool = False, code: str = DECLARATION) -> None:
        self.violations = tuple(violations)
        self.code = code
        self.may_be_outage = may_be_outage
        super().__init__(f"{'; '.join(self.violations)} [{code}]")


@contextmanager
def airflow_errors(job: str) -> Iterator[None]:
    """Raise errors of a declaration as exceptions of Airflow, with the id of the job in the message.

    Raises:
        AirflowException: Airflow's connections, a file or the job directory cannot be used now; a retry may succeed.
        AirflowFailException: every other error.
    """
    try:
        yield
    except DeclarationError as error:
        kind = AirflowException if error.may_be_outage else AirflowFailException
        raise kind(f"job {job!r}: {error}") from error
    except (PortError, AdaptiveSchedulerError, ValueError) as error:
        may_pass = isinstance(error, JobDirectoryError | UnavailableError) and not isinstance(
            error, ForeignDirectoryError
        )
        raise (AirflowException if may_pass else AirflowFailException)(f"job {job!r}: {with_code(error)}") from error


def require(checks: Iterable[Check]) -> None:
    """Run all checks. Raises `DeclarationError`: at least one check failed. The error lists all violations."""
    errors = [error for check in checks if (error := _error(check)) is not None]
    violations = dict.fromkeys(violation for error in errors for violation in _violations_in(error))
    if violations:
        codes = {_code(error) for error in errors}
        code = codes.pop() if len(codes) == 1 else DECLARATION
        raise DeclarationError(list(violations), may_be_outage=all(map(_may_be_outage, errors)), code=code)


def _code(error: Exception) -> str:
    return error.code if isinstance(error, DeclarationError) else error_code(error)


def _may_be_outage(error: Exception) -> bool:
    return isinstance(error, OUTAGES) or (isinstance(error, DeclarationError) and error.may_be_outage)


def _error(check: Check) -> Exception | None:
    try:
        check()
    except VIOLATION_ERRORS as error:
        return error
    return None


def _violations_in(error: Exception | None) -> Sequence[str]:
    return () if error is None else getattr(error, "violations", ()) or (str(error),)


def graph(make: Callable[[], JobGraph]) -> None:
    """Reject an invalid graph. Raises `JobGraphError`, `DeclarationError`."""
    try:
        make().validate()
    except (AttributeError, TypeError) as error:  # a DAG file may contain values of any type
        raise DeclarationError(
            [f"parallelism, max_parallelism or job_graph has a value of a wrong type: {error}"]
        ) from error


def texts(**values: object) -> None:
    """Reject values that are not text, and empty text. Raises `DeclarationError`."""
    _reject(
        f"{name} {value!r} must be text that is not empty"
        for name, value in values.items()
        if not (isinstance(value, str) and value.strip())
    )


def optional_texts(**values: object) -> None:
    """Reject values that are neither text nor None. Raises `DeclarationError`."""
    _reject(
        f"{name} {value!r} must be text"
        for name, value in values.items()
        if not (value is None or isinstance(value, str | PurePath))
    )


def items(**collections: object) -> None:
    """Reject lists and mappings with values that have no text, such as None. `with_texts` has converted all others. Raises `DeclarationError`."""
    _reject(
        f"{name}[{key!r}] is {'None' if value is None else f'a {type(value).__name__}'}, which has no text for the script: use text, for example "
        "{{ value or '' }} in a template, or leave it out"
        for name, values in collections.items()
        for key, value in _items(values)
        if not isinstance(value, str)
    )
    _reject(
        f"{name}[{key!r}] contains a character that no process can receive (U+0000, or half of a surrogate pair): remove the character"
        for name, values in collections.items()
        for key, value in _items(values)
        if _NOT_RECEIVED.search(f"{key}{value}")
    )


def one_of(choices: type[StrEnum], **values: object) -> None:
    """Reject values that are not among the choices, in any case. Raises `DeclarationError`."""
    names = ", ".join(choice.lower() for choice in choices)
    _reject(
        f"{name} {value!r} is not one of {names}"
        for name, value in values.items()
        if str(value).upper() not in choices.__members__
    )


def job_states(states: Collection[str], known: Collection[str]) -> None:
    """Reject unknown states of a job, and an empty collection. Raises `DeclarationError`."""
    if not states:
        raise DeclarationError(["name a state to wait for"])
    _reject(f"unknown state {state!r}{did_you_mean(str(state), known)}" for state in states if state not in known)


def priority(value: object) -> None:
    """Reject a priority that is not a whole number. Raises `DeclarationError`."""
    if type(value) is not int:
        raise DeclarationError([f"priority {value!r} must be a whole number"])


def lists(**values: object) -> None:
    """Reject values that are not lists. A string is rejected, too, although it is a sequence. Raises `DeclarationError`."""
    _reject(
        f"{name} must be a list, for example [{value!r}]"
        for name, value in values.items()
        if isinstance(value, str | bytes) or not isinstance(value, Sequence)
    )


def mappings(**values: object) -> None:
    """Reject values that are not mappings. Raises `DeclarationError`."""
    wrong = [name for name, value in values.items() if value is not None and not isinstance(value, Mapping)]
    _reject(f"{name} must be a mapping, as {{'name': 'value'}}" for name in wrong)  # The value may contain a secret.


def no_secrets(
    *, not_secret: Collection[str] = (), arguments: Mapping[str, object] | None = None, **properties: object
) -> None:
    """Reject secrets, because Airflow stores the arguments of a trigger in clear text. Raises `DeclarationError`.

    Args:
        not_secret: names that look like names of secrets, and are not.
        arguments: name of a parameter -> list of arguments of a script.
        properties: name of a parameter -> mapping of names to values.
    """
    found = [
        (name, str(key))
        for name, values in properties.items()
        for key, value in _mapping(values).items()
        if is_secret(str(key), str(value))
    ]
    found += [(name, key) for name, values in (arguments or {}).items() for key in _secret_arguments(values)]
    secrets = dict.fromkeys(f"{name}[{key!r}]" for name, key in found if key not in not_secret)
    if secrets:
        raise DeclarationError(
            [
                f"{', '.join(secrets)}: Airflow would store these secrets in clear text. Set them in the extra field of the "
                "connection: Spark properties in 'secret-conf', environment variables in 'secret-env'. If a value is not secret, add its "
                "name to the parameter 'not_secret'"
            ]
        )


def _secret_arguments(arguments: object) -> Iterator[str]:
    """Yield names of options with secrets. An argument without a name is identified by its index."""
    texts = [str(argument) for argument in arguments] if isinstance(arguments, list | tuple) else []
    for index, (previous, text) in enumerate(pairwise(["", *texts])):
        assigned = [*secret_assignments(text)]
        yield from assigned
        option = text.partition("=")[0] if text.startswith("-") else previous if _is_option(previous) else ""
        if not assigned and is_secret(option if option == previous else "", text):
            yield option or str(index)


def _is_option(text: str) -> bool:
    """Return whether an argument is an option whose value is the next argument."""
    return text.startswith("-") and "=" not in text


def size(shape: Callable[..., object], name: str, cores: object, memory: str) -> None:
    """Reject the size of a driver or an executor that Spark would not start. Raises `DeclarationError`."""
    violations = [*_violations_in(_error(lambda: parse_memory(memory, f"{name}_memory")))]
    memory_mb = MIN_MEMORY_MB if violations else parse_memory(memory)
    _reject([*violations, *_violations_in(_error(lambda: shape(cores=cores, memory_mb=memory_mb)))])


def no_overridden_properties(*, streaming: bool = True, managed: bool = True, **properties: object) -> None:
    """Reject Spark properties that a parameter of the operator or the scheduler determines. Raises `DeclarationError`."""
    _reject(
        f"{name}[{violation}"
        for name, values in properties.items()
        for violation in refused(_mapping(values), streaming=streaming, managed=managed)
    )


def dependencies(declared: Dependencies, conf: Mapping[str, str]) -> None:
    """Reject jars, packages, files and archives that Spark would not use as declared. Raises `DeclarationError`."""
    _reject(declared.violations(conf))


def callback(*, not_secret: Collection[str] = (), **callbacks: object) -> None:
    """Reject a callback that cannot reach the triggerer or has secret arguments. Raises `DeclarationError`."""
    for name, value in callbacks.items():
        if value is None:
            continue
        if not isinstance(value, AsyncCallback):
            raise DeclarationError(
                [f"{name} must be an AsyncCallback, for example AsyncCallback(SmtpNotifier, kwargs={{...}})"]
            )
        no_secrets(not_secret=not_secret, **{f"{name}.kwargs": value.kwargs})
        try:
            json.dumps(value.kwargs)
        except (TypeError, ValueError) as error:
            raise DeclarationError(
                [f"{name}.kwargs must contain text, numbers, lists and mappings only ({error})"]
            ) from error


def storable_name(job: object) -> None:
    """Reject a job id that Airflow cannot store as the name of an Asset, while Airflow parses the DAG: an id that is not text, or a template.

    Otherwise, Airflow's DAG processor stores no DAG of the file, and only its log contains the error ("URI must be ascii").

    Raises:
        ValueError: the id has characters that are not ASCII, or is not text in the DAG file.
    """
    if isinstance(job, XComArg) or (isinstance(job, str) and "{{" in job):
        raise DeclarationError(
            [
                f"job id {job!r} must be text in the DAG file, because Airflow must know the Asset of the job: use a fixed id, or map the task "
                "over the ids, expand(job=...)"
            ]
        )
    if not isinstance(job, str):
        raise DeclarationError([f"job id {job!r} must be text"])
    if not job.isascii() or SEPARATOR in job:
        raise DeclarationError([f"job id {job!r} may contain only ASCII letters, digits, '.', '_' and '-'"])


def not_in_mapped_group(operator: BaseOperator) -> None:
    """Reject an operator in a mapped task group, whose task instances would all run the same job. Raises `ValueError`."""
    if operator.get_closest_mapped_task_group() is not None:
        raise DeclarationError(
            [
                f"task {operator.task_id!r} is in a mapped task group, so all of its task instances would run the same job. Map the operator "
                "itself: AdaptiveSparkOperator.partial(...).expand(job=[...])"
            ]
        )


def known_parameters(
    operator: type[BaseOperator],
    names: Iterable[str],
    options: Iterable[str],
    instead: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> None:
    """Reject misspelled parameters and parameters of another operator, and report missing parameters in the same error.

    Airflow rejects all other unknown parameters.

    Args:
        operator: class of the operator.
        names: names of the arguments that the operator passes to its base class.
        options: names of the options that the operator accepts.
        instead: parameter of another operator -> what to do instead.
        missing: missing parameter -> what it means.

    Raises:
        TypeError: a parameter is missing, is misspelled, or belongs to another operator. The message contains the correct name.
    """
    foreign = instead or {}
    known = [*signature(operator.__init__).parameters, *options]
    airflow_parameters = signature(BaseOperator.__init__).parameters
    hints = {
        name: f": {foreign[name]}" if name in foreign else did_you_mean(name, [*known, *airflow_parameters])
        for name in names
        if name not in airflow_parameters
    }
    misspelled = [f"{name!r}{hint}" for name, hint in hints.items() if hint]
    violations = [f"needs {name!r}: {meaning}" for name, meaning in (missing or {}).items()]
    violations += [f"has no parameter {'; '.join(misspelled)}"] if misspelled else []
    if violations:
        raise wrong_arguments(f"{operator.__name__} {'; '.join(violations)}")


def wrong_arguments(text: str) -> TypeError:
    """Return the error of a call in a DAG file with arguments that do not fit."""
    return TypeError(f"{text} [{DECLARATION}]")


def _items(values: object) -> Iterable[tuple[object, object]]:
    if isinstance(values, list | tuple):
        return enumerate(values)
    return _mapping(values).items()


def _mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping. The check `mappings` rejects all other values."""
    return value if isinstance(value, Mapping) else {}


def _reject(violations: Iterable[str]) -> None:
    found = list(violations)
    if found:
        raise DeclarationError(found)


def refused(conf: Mapping[str, Any], *, streaming: bool, managed: bool) -> Iterator[str]:
    """Yield a violation for each property without effect on any cluster manager. Its text begins with the name of the property.

    Args:
        conf: Spark properties.
        streaming: whether the adaptive scheduler runs the job.
        managed: whether the script calls `AdaptiveJob`, so that the runtime determines more properties.
    """
    parameters = PARAMETERS | (STREAMING_PARAMETERS if streaming else {})
    parameters |= MANAGED_PARAMETERS if streaming and managed else {}
    for name, value in conf.items():
        if name in parameters:
            yield _use(name, parameters[name])
        elif name.startswith(OWN_PREFIX):
            yield f"{name!r}] is reserved for the runtime: leave it out"
        elif name == SUPERVISE and str(value).lower() != "false":
            yield f"{name!r}] must be off, because the scheduler restarts the driver"


def refused_on_kubernetes(conf: Mapping[str, Any]) -> Iterator[str]:
    """Yield a violation for each property without effect on Kubernetes."""
    for name in map(str, conf):
        prefixes = (parameter for prefix, parameter in KUBERNETES_PREFIXES.items() if name.startswith(prefix))
        parameter = KUBERNETES_PARAMETERS.get(name) or next(prefixes, None)
        if parameter is not None:
            yield _use(name, parameter)
        elif name in KUBERNETES_DETERMINED:
            yield f"{name!r}] is determined by airflow-adaptive: leave it out"


def _use(name: str, parameter: str) -> str:
    return f"{name!r}] would have no effect: use the parameter {parameter!r} of the operator"
