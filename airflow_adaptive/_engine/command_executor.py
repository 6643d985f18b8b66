"""Executes commands through the ports, and returns their outcomes as events."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import (
    ClusterClient,
    ClusterUnreachableError,
    DriverSubmission,
    JobDirectory,
    JobDirectoryError,
    NotSubmittedError,
    SubmissionRefusedError,
)
from airflow_adaptive._core.protocol.conf import STANDBY_EXECUTORS
from airflow_adaptive._core.protocol.failures import redact
from airflow_adaptive._core.scheduler.allocator import required_slots
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverSubmitted,
    Event,
    SubmissionUnanswered,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.steps import Command, KillDriver, SubmitDriver
from airflow_adaptive._engine.directive import executors
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)


DRIVER_DEFAULTS = {
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "131072",
    "spark.log.level": "WARN",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Spark properties that the user's own properties override.

At Spark's default level, INFO, each batch writes about 14 KiB to the disk of the worker, for the whole life of the driver. Only state in RocksDB can
be repartitioned (rescale tier 2); with changelogs, the commits of RocksDB take about as long as those of Spark's default provider. An existing
checkpoint keeps its provider.

Each start of a query opens new state stores, and Spark closes those of the ended run at its next maintenance. glibc raises its threshold for
separate mappings with the first large block that is freed, and then keeps what closed stores have freed: executors grow with the restarts, outside of
their heaps. Any value of a threshold in the environment fixes all thresholds, so that large blocks return to the system (mallopt(3)).
"""


async def execute(
    command: Command, spec: JobSpec, nonce: str, cluster: ClusterClient, directory: JobDirectory, now: datetime
) -> Iterable[Event]:
    """Execute one command. If the cluster does not answer, the outcome is unknown and later observations show it."""
    try:
        match command:
            case SubmitDriver():
                read_code = partial(_read_code, spec, directory)
                return [await _submit(replace(submission(command, spec, nonce), read_code=read_code), cluster, now)]
            case KillDriver(submission_id=str() as submission_id):
                await cluster.kill(submission_id)
            case KillDriver():
                log.warning(
                    "The submission of the driver of epoch %s has no answer. The driver ends when its lease expires, if not before.",
                    command.epoch,
                )
                await cluster.kill_epochs(spec.graph.job, nonce, {command.epoch})
    except ClusterUnreachableError as error:
        log.warning("The outcome of %s is unknown: %s", type(command).__name__, error)
        if isinstance(command, SubmitDriver):
            return [SubmissionUnanswered(at=now, epoch=command.epoch, reason=str(error))]
    return []


async def _submit(submitted: DriverSubmission, cluster: ClusterClient, now: datetime) -> Event:
    """Submit a driver. An unexpected exception counts as a refusal, but the driver may exist: it ends only with its lease."""
    try:
        submission_id = await cluster.submit(submitted)
        return DriverSubmitted(at=now, epoch=submitted.epoch, submission_id=submission_id)
    except (SubmissionRefusedError, NotSubmittedError) as error:
        code = (
            FailureCode.SUBMISSION_REFUSED if isinstance(error, SubmissionRefusedError) else FailureCode.NOT_SUBMITTED
        )
        if submitted.is_standby and "quota" in str(error):
            code = FailureCode.NO_ROOM_FOR_STANDBY
        return DriverEnded(at=now, epoch=submitted.epoch, failure=Failure(error_class=code, message=str(error)))
    except ClusterUnreachableError:
        raise
    except Exception as error:
        log.exception("The submission of the driver of epoch %s failed unexpectedly.", submitted.epoch)
        text = (
            f"the submission failed unexpectedly with {type(error).__name__}: {redact(str(error))}; the traceback is in the log of the task: "
            "correct the parameters, the pod templates or the connection of the job that it names"
        )
        failure = Failure(error_class=FailureCode.SUBMISSION_REFUSED, message=text, causes=(type(error).__name__,))
        return DriverHeartbeatTimedOut(at=now, epoch=submitted.epoch, failure=failure)


async def _read_code(spec: JobSpec, directory: JobDirectory, most_bytes: int) -> Mapping[str, bytes]:
    """Return the staged code of a job, see `DriverSubmission.read_code`. The code of others, at other URIs, is not part of it."""
    folder = spec.script.rpartition("/")[0]
    contents: dict[str, bytes] = {}
    try:
        for uri in (spec.script, *spec.py_files):
            if uri.rpartition("/")[0] == folder:
                content = await directory.file(uri, most_bytes - sum(map(len, contents.values())))
                if content is None:
                    return {}
                contents[uri] = content
    except JobDirectoryError as error:
        log.warning("The driver loads its code from the job directory, because the loop cannot read it now: %s", error)
        return {}
    return contents


def submission(command: SubmitDriver, spec: JobSpec, nonce: str) -> DriverSubmission:
    """Return the driver of one epoch. Properties that keep the driver fenced and adaptive override the user's properties."""
    identity = {
        "spark.airflow.adaptive.job": spec.graph.job,
        "spark.airflow.adaptive.directory": spec.directory,
        "spark.airflow.adaptive.epoch": str(command.epoch),
        "spark.airflow.adaptive.nonce": nonce,
        "spark.airflow.adaptive.leaseTimeout": str(spec.options.driver_lease_timeout.total_seconds()),
        # Half of the scheduler's timeout, because the session needs time to end too.
        "spark.airflow.adaptive.stopTimeout": str(spec.options.stop_timeout.total_seconds() / 2),
    }
    if command.is_standby:
        identity[STANDBY_EXECUTORS] = str(executors(command.slots, spec.executor))
    if spec.options.orphan_timeout is not None:
        identity["spark.airflow.adaptive.orphanTimeout"] = str(spec.options.orphan_timeout.total_seconds())
    return DriverSubmission(
        name=spec.graph.job,
        epoch=command.epoch,
        nonce=nonce,
        script=spec.script,
        py_files=spec.py_files,
        args=spec.args,
        conf={**DRIVER_DEFAULTS, **spec.conf, **identity},
        env=spec.env,
        driver_cores=spec.driver.cores,
        driver_memory_mb=spec.driver.memory_mb,
        executors=executors(command.slots, spec.executor),
        max_executors=executors(_most_slots(spec), spec.executor),
        executor_cores=spec.executor.cores,
        executor_memory_mb=spec.executor.memory_mb,
        driver_template=spec.driver_template,
        executor_template=spec.executor_template,
    )


def _most_slots(spec: JobSpec) -> int:
    """Return the largest number of slots that any requirements of the job allow."""
    ceiling = {name: ParallelismRange(1, most) for name, most in spec.graph.max_parallelism.items()}
    return required_slots(spec.graph, ceiling)
