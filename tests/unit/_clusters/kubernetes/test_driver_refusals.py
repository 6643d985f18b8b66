"""Refusals of the API server in the log of a driver."""

from __future__ import annotations

import time

import pytest

from airflow_adaptive._clusters.kubernetes.driver_refusals import refusal_at_end, refusal_of_executors

POST = "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: https://api/api/v1/namespaces/x/pods. Message: "
DETAILS = ". Received status: Status(apiVersion=v1, code=403, details=null, kind=Status)."

SECURITY = (
    'pods "copy-1-exec-1" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
)
RIGHTS = 'pods "copy-1" is forbidden: User "system:serviceaccount:x:weak" cannot get resource "pods" in API group ""'


def logged(*messages: str) -> str:
    lines = [
        "26/11/28 ERROR ExecutorPodsSnapshotsStoreImpl: Going to stop due to it",
        *(POST + each + DETAILS for each in messages),
    ]
    return "\n".join([*lines, "\tat io.fabric8.kubernetes.client.Foo(Foo.java:1)"])


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (SECURITY, "use docs/kubernetes/restricted-pod.yaml as `executor_pod_template`"),
        (RIGHTS, "bind the Role of docs/kubernetes/driver-account.yaml"),
        ('pods is forbidden: User "me" cannot list resource "pods" in API group ""', "bind the Role"),
        ('Pod "x-exec-1" is invalid: spec.containers[0].name: Required value', "correct `executor_pod_template`"),
        ('admission webhook "a.b" denied the request: no team', "correct `executor_pod_template`"),
        (
            'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
            "correct `executor_pod_template`",
        ),
        ('pods "x" is forbidden: no PriorityClass with name y was found', "correct `executor_pod_template`"),
    ],
)
def test_a_refusal_that_stays_has_a_remedy(message: str, remedy: str) -> None:
    found = refusal_of_executors(logged("another one", message))
    assert found.startswith(f"the API server refuses the executors: {message}: {remedy}")


@pytest.mark.parametrize(
    "message",
    [
        'pods "x" is forbidden: exceeded quota: slots, requested: pods=1, used: pods=3, limited: pods=3',
        'Internal error occurred: failed calling webhook "a.b": connection refused',
        "etcdserver: request timed out",
    ],
)
def test_an_answer_that_may_change_is_no_refusal(message: str) -> None:
    assert refusal_of_executors(logged(message)) == ""


def test_the_output_of_a_script_is_no_refusal() -> None:
    assert refusal_of_executors(f"my script printed: {SECURITY}") == ""
    assert refusal_of_executors("") == ""


def test_the_end_of_a_driver_is_explained_by_its_last_exception_only() -> None:
    ended = logged(SECURITY) + "\nTraceback (most recent call last):\nValueError: no flights"
    assert refusal_at_end(ended) == ""
    refused = f"Traceback (most recent call last):\npy4j.protocol.Py4JJavaError: An error.\n{logged(RIGHTS)}"
    assert refusal_at_end(refused).startswith(f"the API server refused the driver: {RIGHTS}: bind the Role")


def test_the_refusal_of_executors_explains_the_end_of_a_driver_without_one() -> None:
    ended = f"{logged(SECURITY)}\nTraceback (most recent call last):\nSpark context stopped while waiting for backend"
    assert refusal_at_end(ended) == refusal_of_executors(logged(SECURITY))


def test_a_long_message_is_cut_before_the_remedy() -> None:
    found = refusal_of_executors(logged(SECURITY + " x" * 10_000))
    assert found.endswith("...: use docs/kubernetes/restricted-pod.yaml as `executor_pod_template`")
    assert len(found) < 1000


def test_a_hostile_line_is_searched_quickly() -> None:
    begun = time.process_time()
    refusal_of_executors("\n".join([POST + 'a "' * 400_000, *[POST + "w" * 5000] * 400]))
    assert time.process_time() - begun < 5
