"""The cache keeps what proves the end of a driver."""

from __future__ import annotations

from typing import Any

from airflow_adaptive.spark.kubernetes.api import pod_cache
from airflow_adaptive.spark.kubernetes.api.pod_cache import KnownPod, PodCache


def pod(uid: str, role: str = "driver", **content: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "labels": {"spark-role": role}}, **content}


def test_the_last_object_of_a_deleted_driver_stays_known():
    cache = PodCache()
    cache.apply("ADDED", pod("1"))
    cache.apply("DELETED", pod("1", status="terminated"))
    assert cache.find("1") == KnownPod(pod("1", status="terminated"), is_deleted=True, is_gone=True)
    assert cache.pods == []


def test_a_driver_that_a_list_misses_has_no_last_object():
    cache = PodCache()
    cache.apply("ADDED", pod("1"))
    cache.replace([pod("2")])
    assert cache.find("1") == KnownPod(pod("1"), is_deleted=False, is_gone=True)
    assert cache.find("2") == KnownPod(pod("2"))


def test_a_created_pod_is_known_before_the_watch_reports_it():
    cache = PodCache()
    cache.add(pod("1"))
    assert cache.find("1") == KnownPod(pod("1"))


def test_a_created_pod_does_not_replace_what_the_watch_reported():
    cache = PodCache()
    cache.apply("MODIFIED", pod("1", status="running"))
    cache.apply("DELETED", pod("2"))
    cache.add(pod("1"))
    cache.add(pod("2"))
    assert cache.pods == [pod("1", status="running")]


def test_executors_that_are_gone_are_forgotten():
    cache = PodCache()
    cache.apply("ADDED", pod("1", role="executor"))
    cache.apply("DELETED", pod("1", role="executor"))
    assert cache.find("1") is None


def test_the_oldest_drivers_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(pod_cache, "MAX_GONE", 2)
    cache = PodCache()
    for uid in "123":
        cache.apply("DELETED", pod(uid))
    assert [uid for uid in "123" if cache.find(uid)] == ["2", "3"]
