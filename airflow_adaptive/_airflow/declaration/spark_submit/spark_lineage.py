"""Spark properties of OpenLineage's Spark integration: the run of the task as the parent of Spark's own events, and where to send them.

As in Airflow's Spark provider, the administrator turns both on for all tasks (`[openlineage] spark_inject_parent_job_info` and
`spark_inject_transport_info`), and a task can override them. Airflow's OpenLineage provider computes the properties.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._core.protocol.secret_names import is_secret

log = logging.getLogger(__name__)

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

    Args:
        properties: Spark properties of the job.
        context: context of the task.
        parent: whether to add the run of the task as the parent.
        transport: whether to add the transport of Airflow's provider, without its secrets.

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
