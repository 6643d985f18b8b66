"""Each fault, and the words that name it in the failure record and in the transitions. The loop runs against fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from airflow_adaptive._core.ports import SubmissionRefusedError
from airflow_adaptive._core.requirements.control_requests import DesiredState
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.loop_simulation import QUICK, newest_driver, request

DELETED = "driver pod job-1 was deleted (evicted: node n1 is drained)"
NODE_LOST = "node n1 is not ready: the driver may still run"
ADMISSION = """26/11/21 08:38:09 WARN ExecutorPodsSnapshotsStoreImpl: Exception when notifying snapshot subscriber.
io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: https://h/api/v1/namespaces/spark/pods. Message: pods "job-exec-1" is forbidden: violates PodSecurity "restricted:latest"
\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.requestFailure(OperationSupport.java:660)
26/11/21 08:38:10 WARN MicroBatchExecution: Disabling AQE
"""
FORBIDDEN = 'pods "job-exec-1" is forbidden: violates PodSecurity "restricted:latest"'
NO_ANSWER = "whether the cluster accepted the driver is unknown: spark://fake:7077: no response, as the test requires"


def driver_dies(job: Simulation) -> None:
    job.clock.at(20, lambda: job.cluster.kill_driver(newest_driver(job), "exit code 137"))


def driver_pod_is_deleted(job: Simulation) -> None:
    """The node is drained: its room and the executors disappear before the node confirms the end of the driver."""

    def delete() -> None:
        lost = newest_driver(job)
        job.cluster.lose_driver(lost, DELETED)
        job.cluster.kill_worker(job.cluster.workers[0].worker_id)
        job.clock.at(25, lambda: job.cluster.confirm_end(lost, f"exit code 143: {DELETED}"))

    job.clock.at(20, delete)


def node_of_driver_is_lost(job: Simulation) -> None:
    job.clock.at(20, lambda: job.cluster.lose_driver(newest_driver(job), NODE_LOST))


def worker_of_driver_is_lost(job: Simulation) -> None:
    job.clock.at(20, lambda: job.cluster.kill_worker(job.cluster.workers[0].worker_id))


def driver_hangs(job: Simulation) -> None:
    job.clock.at(20, lambda: setattr(job.drivers, "hang", True))


def submission_gets_no_answer(job: Simulation) -> None:
    """The driver never writes a status, so that the job cannot know whether it exists."""
    create = job.cluster.create_driver

    async def lose_answer(submission: object) -> str:
        job.cluster.answers = False
        try:
            return await create(submission)  # type: ignore[arg-type]
        finally:
            job.cluster.answers = True

    job.cluster.create_driver = lose_answer  # type: ignore[method-assign]
    job.drivers.hang = True


def submission_is_refused(job: Simulation) -> None:
    async def refuse(submission: object) -> str:
        raise SubmissionRefusedError("the quota of the namespace is too small")

    job.cluster.create_driver = refuse  # type: ignore[method-assign]


def executors_are_refused(job: Simulation) -> None:
    """The driver runs without an executor, and its log names the cause."""
    job.drivers.registers = 1000
    job.clock.at(8, lambda: job.cluster.write(newest_driver(job), stderr=ADMISSION))


def query_fails(job: Simulation) -> None:
    job.clock.at(20, lambda: job.drivers.fail_query("java.io.IOException", "No space left on device"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault, and what must name it.

    Attributes:
        fault: plans the fault.
        words: words of the failure record.
        transition: state to which the transition leads whose reason names the fault.
    """

    fault: Callable[[Simulation], None]
    words: str
    transition: str = "Restarting"


CASES = (
    Case(fault=driver_dies, words="exit code 137"),
    Case(fault=driver_pod_is_deleted, words=DELETED),
    Case(fault=node_of_driver_is_lost, words=NODE_LOST),
    Case(fault=worker_of_driver_is_lost, words="its worker was lost: it may be running still"),
    Case(fault=driver_hangs, words="DRIVER_HEARTBEAT_TIMEOUT: the driver has written no status for"),
    Case(fault=submission_gets_no_answer, words=NO_ANSWER),
    Case(fault=submission_is_refused, words="the quota of the namespace is too small", transition="Finished"),
    Case(fault=executors_are_refused, words=FORBIDDEN),
    Case(fault=query_fails, words="java.io.IOException: No space left on device"),
)


@pytest.mark.parametrize("case", CASES, ids=[case.fault.__name__ for case in CASES])
def test_failure_record_and_transition_name_the_fault(case: Case) -> None:
    job = Simulation(**QUICK, deploy_timeout="60 s", driver_heartbeat_timeout="20 s", driver_lease_timeout="20 s")
    job.cluster.add_worker(cores=2, memory_mb=1024)
    case.fault(job)
    job.clock.at(150, request(job, DesiredState.CANCELED))
    state = job.run()
    failures = [record.failure.summary for record in state.failures]
    assert case.words in failures[0]
    reasons = [step.reason for step in job.transitions if step.target == case.transition]
    assert case.words in reasons[0]
    assert not any("have 0 slot(s)" in step.reason for step in job.transitions if step.target == "Restarting")
