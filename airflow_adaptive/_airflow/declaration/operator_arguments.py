"""The arguments of `AdaptiveSparkOperator` that its constructor does not name: Airflow's, and the options of the scheduler.

Section `[adaptive]` of airflow.cfg contains the defaults of the options for all jobs of a deployment.

Editors and type checkers read the types from `TypedDict` classes. At run time Airflow reads the signature: it maps a task over named
parameters only, and takes only named parameters from `default_args`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from configparser import RawConfigParser
from datetime import datetime, timedelta
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, cast

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._core.scheduler.config.options import OPTIONS
from airflow_adaptive._core.scheduler.errors import OptionError, did_you_mean
from airflow_adaptive._core.scheduler.job_graph import JobType

Duration: TypeAlias = timedelta | float | str
"""A duration: "30 s", `timedelta(seconds=30)`, or a number of seconds."""

Constructor = TypeVar("Constructor", bound=Callable[..., None])


REQUIRED: Final = {
    "job": "the id of the job, for example job='departures'",
    "application": "the path of the PySpark script where Airflow runs",
    "job_directory": "the URI of a folder for the journal and the checkpoints, which Airflow and Spark can access, for example "
    "job_directory='s3://aws_default@streaming/jobs'",
    "parallelism": "the bounds of the slots, for example parallelism=(1, 8)",
}
"""Required parameter -> what it means, for users who know the parameters of another operator."""


class SchedulerOptions(TypedDict, total=False):
    """The options of the scheduler (docs/reference/options.md). An option that is not set has the value in section `[adaptive]` of airflow.cfg."""

    resource_wait_timeout: Duration
    resource_stabilization_timeout: Duration
    scaling_interval_min: Duration
    scaling_interval_max: Duration | None
    cooldown_extension: str
    executing_stabilization_timeout: Duration
    max_trigger_delay: Duration | None
    max_failed_batches: int
    min_parallelism_increase: int
    scale_up_controller: str
    reactive: bool | str
    load_balance_mode: str
    slot_request_max_interval: Duration
    slot_idle_timeout: Duration
    below_lower_bound: str
    local_recovery_timeout: Duration
    highest_rescale_tier: int | str
    deploy_timeout: Duration
    probe_timeout: Duration
    probe_interval: Duration
    standby: str
    prepare_deployments: bool | str
    stop_timeout: Duration
    driver_heartbeat_timeout: Duration
    driver_lease_timeout: Duration
    poll_interval: Duration
    trigger_lifetime: Duration
    orphan_timeout: Duration
    job_directory_timeout: Duration | None
    history_size: int
    failure_history_size: int
    non_recoverable_failures: Sequence[str] | str | None
    recoverable_failures: Sequence[str] | str | None
    max_failures_before_first_batch: int
    restart_strategy: str | Mapping[str, Any]
    lag_alert_threshold: Duration | None
    source_alignment: str


class OperatorArguments(SchedulerOptions, total=False):
    """The options of the scheduler, and the arguments of every Airflow operator."""

    task_id: str
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    dag: Any
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    priority_weight: int
    weight_rule: Any
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: Any
    on_failure_callback: Any
    on_success_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    pre_execute: Any
    post_execute: Any
    trigger_rule: str
    resources: dict[str, Any] | None
    run_as_user: str | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Any
    outlets: Any
    task_group: Any
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None


def accepts_options(constructor: Constructor) -> Constructor:
    """Add the options to the signature of a constructor, whose last parameter receives the options as keyword arguments.

    A missing argument of a required parameter becomes None. Otherwise Airflow would report only the names of these parameters, before the
    constructor reports the arguments of other operators.
    """
    declared = signature(constructor)
    *named, others = [it.replace(default=None) if it.name in REQUIRED else it for it in declared.parameters.values()]
    options = [Parameter(it.name, Parameter.KEYWORD_ONLY, default=it.default) for it in OPTIONS.values()]

    @wraps(constructor)
    def construct(self: Any, **arguments: Any) -> None:
        constructor(self, **dict.fromkeys(REQUIRED) | arguments)

    construct.__signature__ = declared.replace(parameters=[*named, *options, others])  # type: ignore[attr-defined]
    return cast(Constructor, construct)


def pop_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove the scheduler's options from the arguments of an operator, and return the options.

    Options in the `default_args` of the DAG are returned, too. The arguments of the operator take precedence.
    """
    defaults = kwargs.get("default_args") or {}
    options = {name: value for name, value in defaults.items() if _is_option(name)}
    return options | {name: kwargs.pop(name) for name in [*kwargs] if _is_option(name)}


def parameters_of(operator: object, kind: type[Any]) -> dict[str, Any]:
    """Return the values of the parameters that the signature of an operator class lists, without the options of the scheduler."""
    named = (it.name for it in signature(kind).parameters.values() if it.kind is Parameter.KEYWORD_ONLY)
    return {name: getattr(operator, name) for name in named if name not in OPTIONS}


def is_batch(job_type: object) -> bool:
    """Return whether a `job_type` declares a batch, in any case."""
    return str(job_type).upper() == JobType.BATCH


def as_list(assets: Any) -> list[Any]:
    """Inlets or outlets as a list. Airflow also accepts None and a single asset."""
    if assets is None:
        return []
    return list(assets) if isinstance(assets, list | tuple) else [assets]


def _is_option(name: str) -> bool:
    """Return whether a parameter is an option, by its own name or by Flink's. Only Flink's names contain dots."""
    return name in OPTIONS or "." in name


SECTION = "adaptive"


def is_deferral_off() -> bool:
    """Return whether the administrator has turned deferral off with `[operators] default_deferrable` (ADR 24)."""
    section, option = "operators", "default_deferrable"
    if conf.getboolean(section, option):
        return False
    return f"AIRFLOW__{section}__{option}".upper() in os.environ or _did_administrator_write(section, option)


@cache
def _did_administrator_write(section: str, option: str) -> bool:
    """Return whether the administrator wrote an option into airflow.cfg.

    The airflow.cfg that Airflow generates contains each option with its default. Therefore an option in a section that contains defaults does
    not count.
    """
    # `as_dict` of Airflow 3.1 also executes the commands that return secrets, which fail where Airflow parses DAGs.
    if not RawConfigParser.has_section(conf, section):
        return False
    names = RawConfigParser.options(conf, section)
    written = {name: RawConfigParser.get(conf, section, name, raw=True) for name in names}
    return option in written and not any(
        value == conf.get_default_value(section, name) for name, value in written.items() if name != option
    )


def configured_options() -> dict[str, object]:
    """Return the options that section `[adaptive]` sets, as text. The section contains mappings as JSON.

    An empty value is ignored. A value that equals the default is ignored, too, because Airflow reports the default of every option, and
    some defaults depend on other options.

    Raises:
        OptionError: the section contains an unknown option, or a value starts with `{` and is not valid JSON.
    """
    unknown = [name for name in conf.getsection(SECTION) or {} if name not in OPTIONS]
    if unknown:
        hints = "; ".join(f"{name!r}{did_you_mean(name, OPTIONS)}" for name in unknown)
        raise OptionError(f"[{SECTION}] in airflow.cfg has no option {hints}")
    found = {name: conf.get(SECTION, name, fallback="") for name in OPTIONS}
    return {name: _value(name, text) for name, text in found.items() if text not in ("", str(OPTIONS[name].default))}


def _value(name: str, text: str) -> object:
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"[{SECTION}] {name} = {text} is not valid JSON: {error}") from error
