"""The cache keeps what proves the end of a driver."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes import pod_watch
from airflow_adaptive._clusters.kubernetes.pod_watch import PodCache


def pod(uid: str, role: str = "driver", phase: str = "Pending") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": uid, "labels": {"spark-role": role}},
        "spec": {},
        "status": {"phase": phase},
    }


def known(cache: PodCache, uid: str) -> tuple[str, bool, bool] | None:
    """Return the phase of a pod, and whether the object is its last one and the pod is gone."""
    found = cache.find(uid)
    return None if found is None else (found.object["status"]["phase"], found.is_deleted, found.is_gone)


def test_the_last_object_of_a_deleted_driver_stays_known():
    cache = PodCache()
    cache.apply("ADDED", pod("1"))
    cache.apply("DELETED", pod("1", phase="Failed"))
    assert known(cache, "1") == ("Failed", True, True)
    assert cache.pods == []


def test_a_driver_that_a_list_misses_has_no_last_object():
    cache = PodCache()
    cache.apply("ADDED", pod("1"))
    cache.replace([pod("2")])
    assert known(cache, "1") == ("Pending", False, True)
    assert known(cache, "2") == ("Pending", False, False)


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_driver_that_a_list_missed_and_that_is_added_again_is_alive(is_listed):
    """The list of a server that lags behind can be older than the pod."""
    cache = PodCache()
    cache.add(pod("1"))
    cache.replace([])
    if is_listed:
        cache.replace([pod("1", phase="Running")])
    else:
        cache.apply("ADDED", pod("1", phase="Running"))
    assert known(cache, "1") == ("Running", False, False)
    cache.replace([])
    assert known(cache, "1") == ("Running", False, True)


def test_a_created_pod_is_known_before_the_watch_reports_it():
    cache = PodCache()
    cache.add(pod("1"))
    assert known(cache, "1") == ("Pending", False, False)


def test_a_created_pod_does_not_replace_what_the_watch_reported():
    cache = PodCache()
    cache.apply("MODIFIED", pod("1", phase="Running"))
    cache.apply("DELETED", pod("2"))
    cache.add(pod("1"))
    cache.add(pod("2"))
    assert [each["status"]["phase"] for each in cache.pods] == ["Running"]
    assert known(cache, "2") == ("Pending", True, True)


def test_executors_that_are_gone_are_forgotten():
    cache = PodCache()
    cache.apply("ADDED", pod("1", role="executor"))
    cache.apply("DELETED", pod("1", role="executor"))
    assert cache.find("1") is None


def test_the_oldest_drivers_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(pod_watch, "MAX_GONE", 2)
    cache = PodCache()
    for uid in "123":
        cache.apply("DELETED", pod(uid))
    assert [uid for uid in "123" if cache.find(uid)] == ["2", "3"]


def executor(uid: str, owner: str = "driver", **metadata: Any) -> dict[str, Any]:
    failed = pod(uid, role="executor", phase="Failed")
    return {**failed, "metadata": {**failed["metadata"], "ownerReferences": [{"uid": owner}], **metadata}}


def test_last_failed_executor_of_a_driver_stays_known_until_the_driver_is_gone(monkeypatch):
    monkeypatch.setattr(pod_watch, "MAX_GONE", 2)
    cache = PodCache()
    cache.apply("ADDED", pod("driver"))
    assert cache.failed_executor("driver") is None
    cache.apply("MODIFIED", executor("1"))
    cache.replace([pod("driver"), executor("2")])
    cache.apply("MODIFIED", executor("3", deletionTimestamp="2026"))
    cache.apply("DELETED", executor("2"))
    found = cache.failed_executor("driver")
    assert found is not None
    assert found["metadata"]["uid"] == "2"
    cache.apply("DELETED", pod("driver"))
    assert cache.failed_executor("driver") is None
    for uid in "123":
        cache.apply("MODIFIED", executor(uid, owner=f"driver-{uid}"))
    assert [uid for uid in "123" if cache.failed_executor(f"driver-{uid}")] == ["2", "3"]
