"""Validation of the place of a job: its cluster, and the directory in which it runs already."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_adaptive._airflow.connections import INSTALL, kubernetes_credentials
from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.validation import DeclarationError, refused, refused_on_kubernetes
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """The place of a running job: the connections of its cluster, and its directory as Spark reads it."""

    connections: ConnectionIds
    directory: str


def cluster(
    connections: ConnectionIds,
    kubernetes: KubernetesParameters,
    conf: Mapping[str, Any] | None,
    *,
    streaming: bool = True,
    managed: bool = True,
    with_image: bool = True,
) -> None:
    """Reject connections that do not describe a cluster, and parameters and properties without effect on its cluster manager.

    Blocks on Airflow's connections. Raises `DeclarationError`, `AddressError`.
    """
    address, properties = connections.address(), conf if isinstance(conf, Mapping) else {}
    place = f"connection {connections.spark!r}: extra conf["
    violations = [f"{place}{violation}" for violation in refused(address.conf, streaming=streaming, managed=managed)]
    wrong_credentials: list[AddressError] = []
    if not isinstance(address, KubernetesAddress):
        if kubernetes.given:
            violations.append(
                f"{', '.join(kubernetes.given)}: no effect, because connection {connections.spark!r} names a standalone cluster. Leave the "
                "parameters out, or use a connection with the host k8s://https://host:port"
            )
    elif not streaming:
        violations.append(
            f"connection {connections.spark!r} names a Kubernetes cluster, on which the operator does not run batches: use SparkKubernetesOperator "
            "or SparkSubmitOperator"
        )
    else:
        violations += [f"{place}{violation}" for violation in refused_on_kubernetes(address.conf)]
        violations += [f"conf[{violation}" for violation in refused_on_kubernetes(properties)]
        violations += kubernetes.violations(properties, address.conf, with_image=with_image)
        try:
            kubernetes_credentials(connections.kubernetes)
        except AddressError as error:
            wrong_credentials = [error]
    if violations or wrong_credentials:
        raise DeclarationError(
            [*violations, *map(str, wrong_credentials)],
            may_be_outage=not violations and isinstance(wrong_credentials[0], UndefinedConnectionError),
        )


def requested(
    connections: ConnectionIds,
    kubernetes: KubernetesParameters,
    conf: Mapping[str, str],
    driver: DriverShape,
    executor: ExecutorShape,
) -> tuple[DriverShape, ExecutorShape]:
    """Return the sizes with what a driver and an executor take from the cluster, by the rules of its cluster manager.

    Blocks on Airflow's connections.

    Raises:
        AddressError: the connection does not describe a cluster.
        TemplateError: a pod template is not valid.
        DeclarationError: the value of a property, or a quantity in a pod template, is not valid.
    """
    address = connections.address()
    if not isinstance(address, KubernetesAddress):
        return driver, executor
    try:
        from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import (  # noqa: PLC0415  optional libraries
            planned_driver,
            planned_executor,
        )
    except ImportError as error:
        raise DeclarationError([f"connection {connections.spark!r} names a Kubernetes cluster: {INSTALL}"]) from error
    known = {**address.conf, **kubernetes.conf(), **conf}
    templates = (json.loads(text or "{}") for text in (kubernetes.driver_template(), kubernetes.executor_template()))
    driver_template, executor_template = templates
    try:
        return (
            replace(driver, requested=planned_driver(known, driver.cores, driver.memory_mb, driver_template)),
            replace(executor, requested=planned_executor(known, executor.cores, executor.memory_mb, executor_template)),
        )
    except ValueError as error:
        raise DeclarationError([str(error)]) from error


def check_requested(request: Callable[[KubernetesParameters], object], kubernetes: KubernetesParameters) -> None:
    """Reject properties and quantities from which `requested` cannot compute a request. Raises `DeclarationError`.

    Other checks report sizes, templates and connections that are not valid.
    """
    without_templates = replace(kubernetes, driver_pod_template=None, executor_pod_template=None)
    for parameters in (kubernetes, without_templates):
        try:
            request(parameters)
        except DeclarationError:
            raise
        except (AttributeError, TypeError, ValueError):
            continue


def unmoved(running: RunningJob, connections: ConnectionIds, directory: str) -> None:
    """Refuse to move a running job: the next loop would begin a new journal, and the driver would keep the old journal.

    Raises:
        DeclarationError: the declaration names another directory or another cluster. The message explains how to move the job.
    """
    how = "A running job cannot move: suspend the job,"
    violations = []
    if directory != running.directory:
        violations.append(
            f"job_directory leads to {directory!r}, but the job runs in {running.directory!r}. {how} copy that directory to the new "
            "place, change job_directory, and resume the job"
        )
    if connections != running.connections and not _is_same_cluster(connections, running.connections):
        violations.append(
            f"conn_id {connections.spark!r} names another cluster than {running.connections.spark!r}, on which the job runs. {how} change "
            "conn_id, and resume the job"
        )
    if violations:
        raise DeclarationError(violations)


def _is_same_cluster(connections: ConnectionIds, running: ConnectionIds) -> bool:
    """Return whether connections name the same cluster. A connection that does not exist any more was renamed."""
    place = connections.address().place
    try:
        return place == running.address().place
    except AddressError:
        return True
