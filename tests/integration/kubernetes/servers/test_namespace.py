"""Tests that stay in a namespace of their own. They also run on an existing cluster."""

from __future__ import annotations

import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.api import ApiError
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace

POD = {"spec": {"containers": [{"name": "main", "image": SPARK, "command": ["sleep", "600"]}]}}


def test_a_quota_refuses_pods(namespace: Namespace):
    namespace.set_quota({"pods": 1})
    namespace.create("Pod", "first", POD)
    with pytest.raises(ApiError, match="exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1"):
        namespace.create("Pod", "second", POD)
    namespace.set_quota({"pods": 2})
    namespace.create("Pod", "second", POD)


def test_remaining_objects_are_those_that_a_test_created(namespace: Namespace):
    assert namespace.remaining_objects() == []
    namespace.create("ConfigMap", "settings", {"data": {"key": "value"}})
    namespace.create("Pod", "driver", POD)
    namespace.create_service_account("driver")
    assert namespace.remaining_objects() == [
        "ConfigMap settings", "Pod driver", "Role driver", "RoleBinding driver", "ServiceAccount driver",
    ]  # fmt: skip


def test_nothing_remains_after_the_objects_were_deleted(namespace: Namespace):
    namespace.create("Pod", "driver", POD)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "driver"}
    uid = namespace.api.get(namespace.path("pods", "driver"))["metadata"]["uid"]
    metadata = {"name": "settings", "ownerReferences": [{**owner, "uid": uid}]}
    namespace.create("ConfigMap", "settings", {"metadata": metadata})
    namespace.api.delete(namespace.path("pods", "driver"), grace_period_s=0)
    wait_until(lambda: namespace.remaining_objects() == [], 60, "garbage collection")
