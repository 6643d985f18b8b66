"""What the deployments of a job declare, and what a deployment changes.

A loop publishes the declarations of the running driver and of the newest deployment (`_core.view`); the API server reads from Airflow's database what the
newest DAG declares. `compare` lists the differences of two of them. What one of them does not contain is unknown, and never counts as equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from airflow_adaptive._core.protocol.documents import FailureReport, PreparedQuery
from airflow_adaptive._core.protocol.secret_names import is_secret

ABOUT_STATE: Final = ("STATE_STORE_", "STATEFUL_PROCESSOR_", "STREAMING_STATEFUL_OPERATOR_", "OtherStateError")
"""Beginnings of the error classes of queries that cannot read the state of a checkpoint."""

MASK: Final = "***"
"""Takes the place of the value of a secret, as in Airflow."""

MARKS: Final = (MASK, "{{", "{%", "Truncated. You can change this behaviour")
"""Marks of an unknown value: that of a secret, a template, which the task renders when it runs, and a text that Airflow stores in place of a long value."""

DIGITS: Final = 12
"""Length of a digest in a change."""

CONTENT: Final = "content "
"""Begin of the digest of a value."""

MAX_VALUE: Final = 200
"""Maximum length of a text in a declaration, and of any value in one that is too large, in characters of JSON. A longer one is a digest."""

MAX_DECLARATION: Final = 8000
"""Maximum length of the parameters of a declaration, in characters of JSON: the journal has up to two declarations, and the trigger has one."""

CODE: Final = "code"
"""Name of the change of the staged code. All other changes have the names of parameters."""


class Effect(StrEnum):
    """What a change needs to take effect: a rescale tier, or nothing."""

    AT_ONCE = "AT_ONCE"
    """The running driver and the scheduler apply the change as soon as the task runs. New bounds may rescale the job."""
    STATE = "STATE"
    """New state partitions, in the running driver if its Spark can."""
    DRIVER = "DRIVER"
    """A new driver."""
    REFUSED = "REFUSED"
    """A running job cannot move: the task refuses another directory or another cluster, and the job continues as it was deployed before."""


class Group(StrEnum):
    """What a change is about."""

    CODE = "code"
    ARGUMENTS = "arguments"
    CONF = "conf"
    ENVIRONMENT = "environment"
    DEPENDENCIES = "dependencies"
    SIZES = "sizes"
    BOUNDS = "bounds"
    POLICY = "policy"
    OPTIONS = "options"
    PLACE = "place"
    KUBERNETES = "kubernetes"


_GROUPS: Final[Mapping[Group, tuple[str, ...]]] = {
    Group.CODE: (CODE, "application"),
    Group.ARGUMENTS: ("application_args", "op_args", "op_kwargs"),
    Group.CONF: ("conf", "properties_file", "name"),
    Group.ENVIRONMENT: ("env_vars",),
    Group.SIZES: ("driver_cores", "driver_memory", "executor_cores", "executor_memory"),
    Group.BOUNDS: ("parallelism", "max_parallelism", "job_graph"),
    Group.POLICY: ("rescale_policy", "priority"),
    Group.OPTIONS: ("options", "kafka_conn_id"),
    Group.PLACE: ("job_directory", "conn_id", "kubernetes_conn_id", "namespace"),
    Group.DEPENDENCIES: (
        *("jars", "packages", "exclude_packages", "repositories", "files", "archives", "py_files", "driver_class_path"),
    ),
}
_GROUP_OF: Final = {name: group for group, names in _GROUPS.items() for name in names}
_EFFECTS: Final = dict.fromkeys((Group.BOUNDS, Group.POLICY, Group.OPTIONS), Effect.AT_ONCE) | {
    Group.PLACE: Effect.REFUSED
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a task declares of a job, without the values of secrets.

    Attributes:
        code: digest of the staged code, with the runtime of the driver; "" if it is unknown.
        dag_file: digest of the DAG file, "" if it is unknown.
        parameters: parameter of the operator -> its rendered value as JSON. A parameter that is missing is unknown.
    """

    code: str = ""
    dag_file: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def with_effective(self, newer: Declaration) -> Declaration:
        """Return the declaration of a running driver after a deployment, of which everything that needs no new driver takes effect at once."""
        applied = {name: it for name, it in newer.parameters.items() if _effect(name) is Effect.AT_ONCE}
        return replace(self, parameters={**self.parameters, **applied})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference of two deployments.

    Attributes:
        group: what the change is about.
        name: parameter of the operator, with the key of an entry that has changed: `conf[spark.sql.ansi.enabled]`; `code` for the staged code.
        before: value of the running deployment, None if it is not set; of code, the begin of its digest.
        after: value of the other deployment, likewise.
        effect: what the change needs to take effect.
    """

    group: Group
    name: str
    before: Any
    after: Any
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences of two deployments.

    Attributes:
        changes: known differences, code first.
        unknown: names, as in a change, of what may differ.
    """

    changes: tuple[Change, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def effect(self) -> Effect | None:
        """The most that a change needs, None without a change. Unknown differences do not count."""
        found = {change.effect for change in self.changes}
        return max(found, key=list(Effect).index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What the newest driver that was prepared for a deployment has reported.

    Attributes:
        deployment: fingerprint of the deployment.
        queries: what it knows of the queries; empty for a script that starts its queries itself, and after a failure.
        failure: why it could not be prepared, None if it is prepared.
    """

    deployment: str
    queries: tuple[PreparedQuery, ...] = ()
    failure: FailureReport | None = None

    def keeps_state(self) -> tuple[bool | None, str]:
        """Return whether the deployment keeps the state, None if that is unknown, and the reason."""
        if self.failure is not None:
            text = f"{self.failure.error_class}: {self.failure.message}"
            is_about_state = self.failure.error_class.startswith(ABOUT_STATE)
            return (False, text) if is_about_state else (None, f"its driver could not be prepared: {text}")
        unchecked = [f"query {it.name!r}: {it.unchecked}" for it in self.queries if it.unchecked]
        if unchecked or not self.queries:
            return None, "; ".join(unchecked) or "the script starts its queries itself, so that no copy of them was run"
        return True, "a copy of each query has run a batch with the schemas of the state, and Spark has accepted them"


def digest(text: str) -> str:
    """Return the digest of a text, "" of an empty one, which is unknown."""
    return sha256(text.encode()).hexdigest() if text else ""


def declaration(parameters: Mapping[str, Any], *, code: str = "", dag_file: str = "") -> Declaration:
    """Return what a task declares. Secrets are masked, and what is nested is a digest, because it may contain secrets under any name. So is what is long."""
    public = {name: _public(value) for name, value in parameters.items()}
    if len(json.dumps(public)) > MAX_DECLARATION:
        public = {name: _shortened(value) for name, value in public.items()}
    return Declaration(code=code, dag_file=dag_file, parameters=public)


def compare(running: Declaration, other: Declaration) -> Comparison:
    """Return what another deployment changes."""
    before, after = _entries(running, other), _entries(other, running)
    only_one = running.parameters.keys() ^ other.parameters.keys()
    changes, unknown = [], sorted(only_one | _unknown(before) | _unknown(after))
    if not running.code or not other.code:
        unknown.insert(0, CODE)
    for name in dict.fromkeys((*before, *after)):
        parameter, old, new = name.partition("[")[0], before.get(name), after.get(name)
        if parameter in unknown or (old == new and not _is_unknown(new)):
            continue
        if old is not None and new is not None and (_is_unknown(old) or _is_unknown(new)):
            unknown.append(name)
            continue
        group = _GROUP_OF.get(parameter, Group.KUBERNETES)
        changes.append(Change(group=group, name=name, before=old, after=new, effect=_effect(parameter)))
    return Comparison(changes=tuple(changes), unknown=tuple(unknown))


def _effect(parameter: str) -> Effect:
    if parameter == "max_parallelism":
        return Effect.STATE
    return _EFFECTS.get(_GROUP_OF.get(parameter, Group.KUBERNETES), Effect.DRIVER)


def _unknown(entries: Mapping[str, Any]) -> set[str]:
    """Return the parameters whose whole value is an unknown text. The other deployment may have a mapping or a list instead."""
    return {
        name for name, value in entries.items() if "[" not in name and isinstance(value, str) and _is_unknown(value)
    }


def _entries(found: Declaration, other: Declaration) -> dict[str, Any]:
    """Return the code, and the parameters that are set, with an item for each entry of a mapping, unless the other deployment has only its digest."""
    entries = {CODE: found.code[:DIGITS]} if found.code else {}
    for name, value in found.parameters.items():
        if isinstance(value, Mapping | list) and value and str(other.parameters.get(name)).startswith(CONTENT):
            entries[name] = _digest(value)
        elif isinstance(value, Mapping):
            entries |= {f"{name}[{key}]": it for key, it in value.items()}
        elif value not in (None, []):
            entries[name] = value
    return entries


def _is_unknown(value: Any) -> bool:
    """Return whether a value is unknown (see `MARKS`)."""
    return any(mark in str(value) for mark in MARKS)


def _public(value: Any) -> Any:
    """Return a value as JSON, without secrets."""
    if isinstance(value, Mapping):
        return {str(key): _masked(str(key), _scalar(it)) for key, it in value.items()}
    if isinstance(value, list | tuple):
        items = [_scalar(it) for it in value]
        options = [previous if str(previous).startswith("-") else "" for previous in ("", *items)]
        return [_masked(option, it) for option, it in zip(options, items, strict=False)]
    return _masked("", _scalar(value))


def _scalar(value: Any) -> Any:
    """Return a number, a text or None."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _digest(value) if isinstance(value, Mapping | list | tuple) else str(value)


def _masked(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return MASK if is_secret(name, value) else _shortened(value)


def _shortened(value: Any) -> Any:
    return _digest(value) if len(json.dumps(value)) > MAX_VALUE else value


def _digest(value: Any) -> str:
    """Return the digest of a value. The mark of an unknown value remains, because only the rendered value can be compared."""
    text = json.dumps(value, sort_keys=True, default=str)
    mark = next((f"{mark} " for mark in MARKS if mark in text), "")
    return f"{mark}{CONTENT}{digest(text)[:DIGITS]}"
